import logging

import pytest

from orbitmq.client.producer.start_rate import StartRate, called_from


def test_more_than_ten_starts_a_minute_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    rate = StartRate()
    with caplog.at_level(logging.WARNING, logger="orbitmq.client"):
        for number in range(10):
            rate.note(number * 5_000)
        assert caplog.messages == []
        for _ in range(20):
            rate.note(50_000)
    assert len(caplog.messages) == 1
    assert "more than 10 producers" in caplog.messages[0]
    assert "test_start_rate.py" in caplog.messages[0]


def test_a_start_now_and_then_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    rate = StartRate()
    with caplog.at_level(logging.WARNING, logger="orbitmq.client"):
        for number in range(100):
            rate.note(number * 6_001)
    assert caplog.messages == []


def test_the_call_site_can_be_set_for_another_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rate = StartRate()
    with called_from("billing.py:42"):
        for _ in range(11):
            rate.note(0)
    assert "the last one at billing.py:42;" in caplog.messages[0]
