"""The deduplicator step by step, without a loop."""

import pytest

from orbitmq.client.consumer.deduplication.blocking import Deduplicator
from orbitmq.client.consumer.delivery.handler import RetryLater
from tests.client.consumer.deduplication.messages import message


def test_claim_work_mark() -> None:
    with Deduplicator() as dedup:
        one = message("a")
        assert dedup.is_new(one)
        with pytest.raises(RetryLater):
            dedup.is_new(one)
        dedup.release(one)
        assert dedup.is_new(one)
        dedup.mark(one)
        assert not dedup.is_new(one)
    assert repr(dedup) == "<Deduplicator <MemoryClaims 0 claimed, 1 done>>"
