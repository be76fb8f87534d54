"""Running commands in this process, with the time zone of the golden texts."""

import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def utc() -> Iterator[None]:
    """Show local times in UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()
