"""Runs orbitmq with a setting of Python's garbage collector: ``collector.py frozen up …``.

::

    on       Python's default
    frozen   what is there some seconds after the start is never looked at again
    tuned    the youngest generation is looked at after 50,000 new objects instead of 700
"""

import gc
import sys
from collections.abc import Callable
from threading import Timer
from typing import Final

from orbitmq.cli.main import main

FREEZE_AFTER_S: Final = 3.0
YOUNGEST: Final = 50_000


def freeze_later() -> None:
    """Freeze what the start has made, when it is over."""

    def freeze() -> None:
        gc.collect()
        gc.freeze()

    timer = Timer(FREEZE_AFTER_S, freeze)
    timer.daemon = True
    timer.start()


SETTINGS: Final[dict[str, Callable[[], None]]] = {
    "on": lambda: None,
    "frozen": freeze_later,
    "tuned": lambda: gc.set_threshold(YOUNGEST, 20, 20),
}


if __name__ == "__main__":
    SETTINGS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
