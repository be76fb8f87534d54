import logging

import pytest

from orbitmq.store.progress import LoggedProgress
from tests.store.stores import HandClock


def test_every_step_is_reported_and_a_line_is_logged_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "orbitmq.store")
    clock = HandClock()
    told: list[tuple[int, int]] = []
    progress = LoggedProgress("recovery", clock, lambda *step: told.append(step))
    for done in range(1, 11):
        clock.now += 2_000
        progress(done * 1_000_000, 10_000_000)
    assert told == [(done * 1_000_000, 10_000_000) for done in range(1, 11)]
    assert caplog.messages == [
        "recovery: 3 of 10 MB, 30 %, after 6 s",
        "recovery: 6 of 10 MB, 60 %, after 12 s",
        "recovery: 9 of 10 MB, 90 %, after 18 s",
    ]


def test_short_work_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orbitmq.store")
    LoggedProgress("recovery", HandClock(), lambda _done, _total: None)(0, 0)
    assert caplog.messages == []
