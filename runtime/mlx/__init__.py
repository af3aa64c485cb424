"""MLX: its sequences, sampling and detokenising, and the backend that ``runtime.local`` drives."""
