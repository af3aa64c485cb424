"""llama.cpp: its options, loading, sampling, and the backend that ``runtime.local`` drives."""
