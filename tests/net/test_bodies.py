from typing import Any

import pytest

from orbitmq.errors import InvalidBody
from orbitmq.net.bodies import read_body
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.threads import Future
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.json.body import INLINE_LIMIT

DIALECT = b'{"brokerAddrTable":{"%s":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"a"}}}'


class CountedWorkers(InlineWorkers):
    def __init__(self) -> None:
        super().__init__()
        self.submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize(
    ("data", "on_workers"),
    [
        (DIALECT.replace(b"{0:", b'{"0":') % b"a", 0),
        (DIALECT.replace(b"{0:", b'{"0":') % (b"a" * INLINE_LIMIT), 0),
        (DIALECT % b"a", 0),
        (DIALECT % (b"a" * INLINE_LIMIT), 1),
    ],
    ids=["standard", "large standard", "dialect", "large dialect"],
)
def test_only_a_large_body_in_the_dialect_goes_to_a_worker(data: bytes, on_workers: int) -> None:
    workers = CountedWorkers()

    async def scenario(clock: VirtualClock) -> ClusterInfo:
        return await read_body(ClusterInfo, memoryview(data), workers)

    (broker,) = run_virtual(scenario).broker_addr_table.values()
    assert broker.broker_addrs == {0: "127.0.0.1:10911"}
    assert workers.submitted == on_workers


@pytest.mark.parametrize("size", [1, INLINE_LIMIT + 1])
def test_what_is_no_body_is_an_error_from_either_place(size: int) -> None:
    async def scenario(clock: VirtualClock) -> ClusterInfo:
        return await read_body(ClusterInfo, b"[" + b" " * size, InlineWorkers())

    with pytest.raises(InvalidBody, match="ClusterInfo"):
        run_virtual(scenario)
