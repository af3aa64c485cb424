"""The command: ``python -m cogstep`` is ``cogstep``."""

from __future__ import annotations

import sys

from interpreters.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
