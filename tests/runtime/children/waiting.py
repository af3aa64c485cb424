"""A child that goes on until it is ended, and holds Python's lock as native code may."""

import os
import re


def main() -> None:
    """Says its number first."""
    print(os.getpid(), flush=True)
    re.match(r"(a*)*b", "a" * 60)
