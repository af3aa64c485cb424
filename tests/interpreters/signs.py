"""What waits for a sign from another thread, and no longer than a test may."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 60
"""Seconds after which a test that hangs fails; no test waits that long."""


@contextmanager
def once(sign: threading.Event, action: Callable[[], object]) -> Iterator[None]:
    """Do something on another thread as soon as the sign is there."""

    def wait() -> None:
        assert sign.wait(PATIENCE)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join(PATIENCE)
