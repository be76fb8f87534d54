from collections.abc import Iterator

import pytest

from orbitmq.store.disk.disk import RealDisk, RealFile


@pytest.fixture(autouse=True)
def no_file_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test leaves open: many play a process that died, which closes nothing itself."""
    opened: list[RealFile] = []
    real_open = RealDisk.open

    def noted(
        disk: RealDisk, path: str, *, create: bool = False, writable: bool = True
    ) -> RealFile:
        opened.append(real_open(disk, path, create=create, writable=writable))
        return opened[-1]

    monkeypatch.setattr(RealDisk, "open", noted)
    yield
    for file in opened:
        file.close()
