"""The command line: ``python -m cogstep`` equals ``cogstep``."""

from __future__ import annotations

import sys

from interpreters.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
