"""Which codes a broker answers, and that each has one handler."""

from orbitmq.broker.wiring import Endpoint, RequestHandlers
from orbitmq.message.host import Host
from orbitmq.net.address import Address
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.codes import RequestCode
from tests.broker.test_state import opened

EVERY_DAY = {
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.PULL_MESSAGE,
    RequestCode.HEART_BEAT,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.QUERY_MESSAGE,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.GET_BROKER_RUNTIME_INFO,
}


def test_what_every_client_does_on_every_day_is_served() -> None:
    async def main(clock: VirtualClock) -> frozenset[int]:
        state = await opened(clock, SimulatedDisk(), [])

        async def announce() -> None:
            pass

        async def queues_of(_topic: str) -> None:
            pass

        endpoint = Endpoint(
            advertised=lambda: Address("127.0.0.1", 10911),
            store_host=lambda: Host.parse("127.0.0.1:10911"),
            announce=announce,
            replication=HARuntimeInfo,
            queues_of=queues_of,
        )
        codes = RequestHandlers(state, endpoint).handlers.codes
        state.store.close()
        return codes

    codes = run_virtual(main)
    assert codes >= EVERY_DAY
    assert codes <= set(RequestCode)
