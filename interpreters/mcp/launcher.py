"""Becomes a server's program, once it is arranged that it ends with the program that wanted it.

Run as ``python -I -S launcher.py PARENT PROGRAM ARGUMENT...``; nothing of this project is imported, so that it is fast.
"""

import os
import signal
import sys

DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of Linux's ``prctl.h``, which outlives the change of program."""
OFTENEST_VICTIM = "500"
"""Of 1000, as for our other children: where memory runs out, a server goes before the program that began it."""


def main() -> None:
    parent, words = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        try:
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write(OFTENEST_VICTIM)
        except (OSError, AttributeError):
            pass
    if os.getppid() != parent:  # it went before the lines above
        os._exit(0)
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(words[0], words)
    except OSError as error:
        print(f"{words[0]} can't be started: {error.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main()
