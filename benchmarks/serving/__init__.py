"""The parts of ``benchmarks/runtime.py``: work, this library's side, and what it is measured beside."""
