import pytest

from bench.flush import shared


@pytest.mark.parametrize("waiters", [1, 16])
def test_all_who_wait_share_one_sync(waiters: int) -> None:
    found = shared(waiters, seconds=0)
    assert found.messages_per_fsync == waiters
    assert found.messages_per_s == pytest.approx(found.fsyncs_per_s * waiters)
