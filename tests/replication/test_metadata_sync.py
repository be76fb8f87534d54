"""What a replica asks its master for; brokers on both ends are in the tests of the broker."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from orbitmq.errors import InvalidBody
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.replication.follower import LogRange
from orbitmq.replication.metadata_sync import MetadataSync, OwnOffset
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.group import SubscriptionGroupTable
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from orbitmq.wire.bodies.pop import RequestModeTable
from orbitmq.wire.bodies.topic import DataVersion, TopicConfigTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import UpdateConsumerOffset
from orbitmq.wire.json.body import Body
from orbitmq.wire.session import Response

HERE = Address("127.0.0.1", 10911)
OWN = OwnOffset("billing", "orders", 3, 77)
RANGE = {"commitLogMinOffset": "4096", "commitLogMaxOffset": "9000"}
BODIES: dict[int, Body] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigTable(data_version=DataVersion(counter=5)),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupTable(
        data_version=DataVersion(counter=6)
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetTable(offset_table={"orders@g": {0: 9}}),
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetTable(offset_table={3: 12}),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: RequestModeTable(),
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable(table=RANGE),
}


class Tables:
    """Takes what comes, and has an offset that the master has not."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.given_back: list[OwnOffset] = []
        self.log_end = 9_000

    def take_topics(self, table: TopicConfigTable) -> None:
        self.taken.append(table)

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        self.taken.append(table)

    def take_offsets(self, table: ConsumerOffsetTable) -> Sequence[OwnOffset]:
        self.taken.append(table)
        return [OWN]

    def returned(self, own: OwnOffset) -> None:
        self.given_back.append(own)

    def has_log_before(self, end: int) -> bool:
        return self.log_end >= end

    def take_progress(self, offsets: ConsumerOffsetTable, delays: DelayOffsetTable) -> None:
        self.taken.append((offsets, delays))

    def take_request_modes(self, table: RequestModeTable) -> None:
        self.taken.append(table)


def test_all_tables_are_taken_and_one_that_fails_is_no_reason_to_skip_others() -> None:
    asked: list[UpdateConsumerOffset] = []
    refused = {int(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)}

    def serve(_connection: object, request: Frame) -> Response:
        if request.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            asked.append(request.read(UpdateConsumerOffset))
            return Response()
        if request.code in refused:
            return Response(1, remark="not now")
        return Response(body=BODIES[request.code].to_json())

    async def main(_clock: VirtualClock) -> None:
        network, tables = MemoryNetwork(), Tables()
        async with Listener(HERE, serve, network=network), Dialer(network=network) as dialer:
            sync = MetadataSync(dialer, tables)
            assert await sync.log_range() is None
            sync.follow(HERE)
            assert await sync.log_range() == LogRange(4096, 9000)
            await sync.round()
            assert len(tables.taken) == 4
            [update] = asked
            assert (update.queue_id, update.commit_offset) == (OWN.queue_id, OWN.offset)
            assert tables.given_back == [OWN]
            refused.clear()
            await sync.round()
            assert len(tables.taken) == 9

    run_virtual(main)


def test_a_cause_is_logged_once_until_there_is_another(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_clock: VirtualClock) -> None:
        network = MemoryNetwork()
        codes = [1, 1, 1, 14, 14, None, None, 1]

        def serve(_connection: object, request: Frame) -> Response:
            if codes[0] is not None:
                return Response(codes[0], remark=f"not now, request {request.opaque}")
            body = BODIES.get(request.code)
            return Response() if body is None else Response(body=body.to_json())

        async with Listener(HERE, serve, network=network), Dialer(network=network) as dialer:
            sync = MetadataSync(dialer, Tables())
            sync.follow(HERE)
            while codes:
                await sync.round()
                codes.pop(0)

    with caplog.at_level(logging.INFO, logger="orbitmq.replication"):
        run_virtual(main)
    said = [one.levelname for one in caplog.records if "tables of the master" in one.message]
    assert said == ["WARNING", "WARNING", "INFO", "WARNING"]


def test_the_progress_of_delivery_is_taken_when_the_log_has_what_was_delivered() -> None:
    asked: list[int] = []

    def serve(_connection: object, request: Frame) -> Response:
        asked.append(request.code)
        if request.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            return Response()
        return Response(body=BODIES[request.code].to_json())

    async def main(_clock: VirtualClock) -> None:
        network, tables = MemoryNetwork(), Tables()
        progress = (
            BODIES[RequestCode.GET_ALL_CONSUMER_OFFSET],
            BODIES[RequestCode.GET_ALL_DELAY_OFFSET],
        )
        async with Listener(HERE, serve, network=network), Dialer(network=network) as dialer:
            sync = MetadataSync(dialer, tables)
            sync.follow(HERE)
            tables.log_end = 8_999
            await sync.round()
            await sync.round()
            assert progress not in tables.taken
            assert asked.count(RequestCode.GET_ALL_DELAY_OFFSET) == 1
            tables.log_end = 9_000  # where the master's log ended after it was asked
            await sync.round()
            assert tables.taken.count(progress) == 1
            assert asked.count(RequestCode.GET_ALL_DELAY_OFFSET) == 1
            await sync.round()
            assert tables.taken.count(progress) == 2
            assert asked.index(RequestCode.GET_ALL_DELAY_OFFSET) < asked.index(
                RequestCode.GET_BROKER_RUNTIME_INFO
            )

    run_virtual(main)


def log_range(table: dict[str, str]) -> LogRange | None:
    """Return what is made of the runtime info of a master."""

    def serve(_connection: object, _request: Frame) -> Response:
        return Response(body=KVTable(table=table).to_json())

    async def main(_clock: VirtualClock) -> LogRange | None:
        network = MemoryNetwork()
        async with Listener(HERE, serve, network=network), Dialer(network=network) as dialer:
            sync = MetadataSync(dialer, Tables())
            sync.follow(HERE)
            return await sync.log_range()

    return run_virtual(main)


def test_a_master_that_does_not_say_where_its_log_is_is_an_error() -> None:
    with pytest.raises(InvalidBody, match="has no log"):
        log_range({})


def test_a_master_of_java_without_a_file_has_an_empty_log() -> None:
    said = {"commitLogMinOffset": "-1", "commitLogMaxOffset": "0"}
    assert log_range(said) == LogRange(0, 0)


def test_a_topic_is_asked_for_once_and_many_are_asked_for_together() -> None:
    rounds: list[float] = []

    async def main(clock: VirtualClock) -> None:
        def serve(_connection: object, request: Frame) -> Response:
            if request.code != RequestCode.GET_ALL_TOPIC_CONFIG:
                return Response(code=ResponseCode.SYSTEM_ERROR)
            rounds.append(clock.monotonic_ms() / 1000)
            if len(rounds) == 4:
                return Response(code=ResponseCode.SYSTEM_ERROR)
            return Response(body=TopicConfigTable(data_version=DataVersion()).to_json())

        network = MemoryNetwork()
        async with Listener(HERE, serve, network=network), Dialer(network=network) as dialer:
            sync = MetadataSync(dialer, Tables())
            sync.follow(HERE)
            running = asyncio.create_task(sync.run())
            await clock.sleep(0.1)
            began = rounds[0]
            for topic in ("orders", "orders", "bills"):
                sync.ask_for(topic)
            await clock.sleep(5)
            sync.ask_for("orders")
            await clock.sleep(1)
            sync.ask_for("late")
            await clock.sleep(2)
            sync.ask_for("failed")
            await clock.sleep(2)
            sync.ask_for("failed")  # that round had no answer
            await clock.sleep(1)
            running.cancel()
        assert [round(one - began) for one in rounds] == [0, 1, 6, 8, 10]

    run_virtual(main)
