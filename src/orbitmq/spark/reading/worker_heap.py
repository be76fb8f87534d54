"""Keeps garbage collection short in Spark's Python workers, which run many tasks."""

import gc
from functools import cache

__all__ = ["freeze_imports"]


@cache
def freeze_imports() -> None:
    """Exclude all imported modules from later garbage collections; once per process.

    Call it in a task only: there the process is Spark's. The worker collects garbage after each
    task (``pyspark/daemon.py``), and traversing the objects of PySpark, Arrow and numpy takes some
    50 ms, enough to read 30,000 messages. Frozen objects are never freed, so this is done once,
    while there are few others.
    """
    gc.freeze()
