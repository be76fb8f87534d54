"""A file system that is full as long as it should be."""

from pathlib import Path

from orbitmq.testing.broker.disk import FillableDisk


def test_it_is_full_while_it_should_be(tmp_path: Path) -> None:
    is_full = False
    disk = FillableDisk(lambda: is_full)
    before = disk.usage(str(tmp_path))
    is_full = True
    full = disk.usage(str(tmp_path))
    assert full.total == before.total
    assert full.ratio == 1.0 > before.ratio
