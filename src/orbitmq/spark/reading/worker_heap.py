"""The heap of Spark's Python workers, which serve one task after the other."""

import gc
from functools import cache

__all__ = ["freeze_imports"]


@cache
def freeze_imports() -> None:
    """Take what is imported out of all later garbage collections; the first call in a process does.

    To be called in a task, where the process is Spark's. Its worker collects all garbage after each
    task (``pyspark/daemon.py``), and for that looks at whatever PySpark, Arrow and numpy consist
    of: some 50 ms, in which 30,000 messages can be read. Of what is frozen nothing goes away any
    more, be it garbage one day; so this is done once, when little else is there.
    """
    gc.freeze()
