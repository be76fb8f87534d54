import pytest

from orbitmq.broker.sending import fast_fail
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("refusal", "begins"),
    [
        (fast_fail.queue_full(3, 9, capacity=3, oldest_ms=5), "[OVERLOAD]system busy"),
        (
            fast_fail.queue_full(2, fast_fail.WAITING_BYTES_MAX, capacity=3, oldest_ms=5),
            "[REJECTREQUEST]system busy",
        ),
        (fast_fail.waited_too_long(5, 3, limit_ms=5), "[TIMEOUT_CLEAN_QUEUE]broker busy"),
        (
            fast_fail.disk_busy(5, 3, write_ms=11, limit_ms=10),
            "[PCBUSY_CLEAN_QUEUE]broker busy",
        ),
    ],
)
def test_the_remark_tells_cause_wait_and_size(refusal: Refusal | None, begins: str) -> None:
    assert refusal is not None
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert refusal.remark.startswith(begins)
    assert "period in queue: 5ms, size of queue: " in refusal.remark


def test_up_to_the_limits_no_send_is_refused() -> None:
    assert fast_fail.queue_full(2, 9, capacity=3, oldest_ms=0) is None
    assert fast_fail.waited_too_long(4, 3, limit_ms=5) is None
    assert fast_fail.disk_busy(5, 3, write_ms=10, limit_ms=10) is None
