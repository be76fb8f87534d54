import shutil
from typing import NamedTuple

import pytest

from bench.growth import measured, shown
from tests.bench.tiny import TINY


class FullDisk(NamedTuple):
    free: int = 0


def test_a_step_is_filled_started_and_read() -> None:
    step = measured(200, 4, TINY)
    assert step.append > 0
    assert step.crash.log_mb == step.stop.log_mb > 0
    assert all(cost > 0 for cost in step.rows.values())
    lines = shown(["200"], [step]).splitlines()
    assert lines[0].split() == ["200"]
    assert len(lines) == 1 + 1 + len(step.rows) + 5 + len(step.memory)


def test_a_step_that_does_not_fit_the_disk_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _directory: FullDisk())
    with pytest.raises(RuntimeError, match="set TMPDIR"):
        measured(1000, 4)
