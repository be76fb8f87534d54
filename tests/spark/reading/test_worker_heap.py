import gc
from multiprocessing import get_context

from orbitmq.spark.reading.worker_heap import freeze_imports


def frozen_by_calls() -> tuple[int, int]:
    """Return how many objects are frozen after the first call, and after the second."""
    freeze_imports()
    first = gc.get_freeze_count()
    kept = [[number] for number in range(1_000)]
    freeze_imports()
    second = gc.get_freeze_count()
    assert len(kept) == 1_000
    return first, second


def test_imports_are_frozen_once() -> None:
    with get_context("spawn").Pool(1) as processes:  # what is frozen stays so
        first, second = processes.apply(frozen_by_calls)

    assert first > 1_000
    assert second <= first
