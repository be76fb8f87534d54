"""The deduplicator step by step, on a loop."""

import asyncio
from pathlib import Path

import pytest

from orbitmq.client.consumer.deduplication.deduplicator import Deduplicator
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.errors import NotRunning
from tests.client.consumer.deduplication.messages import message


def test_claim_work_mark(tmp_path: Path) -> None:
    async def story() -> None:
        dedup = Deduplicator(str(tmp_path / "seen.db"))
        one = message("a")
        assert await dedup.is_new(one)
        with pytest.raises(RetryLater):
            await dedup.is_new(one)
        await dedup.release(one)
        assert await dedup.is_new(one)
        await dedup.mark(one)
        assert not await dedup.is_new(one)
        await dedup.close()
        await dedup.close()
        with pytest.raises(NotRunning, match="is closed"):
            await dedup.is_new(one)

    asyncio.run(story())
