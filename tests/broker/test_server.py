"""A whole broker: start and stop, ports, registration, and what survives a restart."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import ConnectionClosed, InvalidInput, StoreError, StoreLocked
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import LiveSettings as LiveNameserverSettings
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.transport.tls import client_context
from orbitmq.settings import from_arguments
from orbitmq.store.message_store import MessageStore
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.group import ConsumerIdList
from orbitmq.wire.bodies.heartbeat import HeartbeatData
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup, Heartbeat
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import ConsumerSendMsgBack, SendMessageAnswer
from tests.broker.exchanges import pull_header, send_header
from tests.broker.fake_clients import consumer, tags
from tests.net.conftest import Certificates

SMALL = ("mappedFileSizeCommitLog=8388608", "maxHashSlotNum=100", "maxIndexNum=400")


def settings(directory: Path, *more: str) -> LiveSettings:
    said = [f"storePathRootDir={directory}", "listenPort=0", *SMALL, *more]
    return LiveSettings.load(from_arguments(said))


async def route(nameserver: Nameserver, topic: str) -> TopicRouteData | None:
    async with Dialer() as dialer:
        answer = await dialer.request(nameserver.address, GetRouteInfo(topic=topic))
    return (
        None
        if answer.code == ResponseCode.TOPIC_NOT_EXIST
        else TopicRouteData.from_json(answer.body)
    )


def test_a_nameserver_on_the_same_loop_answers_while_the_store_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    waited: list[bool] = []

    def recover(_store: MessageStore, *_calls: object) -> None:
        waited.append(answered.wait(10))
        raise StoreError("recovered enough", path="")

    monkeypatch.setattr(MessageStore, "open", recover)

    async def main() -> None:
        async with Nameserver(NameserverSettings(listen_port=0, kv_config_path="")) as nameserver:
            broker = Broker(settings(tmp_path))
            start = asyncio.create_task(broker.start())
            assert await route(nameserver, "orders") is None
            answered.set()
            with pytest.raises(StoreError, match="recovered enough"):
                await start
            await broker.close()

    asyncio.run(main())
    assert waited == [True]


def test_a_start_that_is_cancelled_waits_for_the_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is closed after it, and must not be while a worker recovers it."""
    goes_on = threading.Event()
    calls: list[str] = []

    def recover(_store: MessageStore, *_calls: object) -> None:
        calls.append("begun")
        goes_on.wait(10)
        calls.append("recovered")

    monkeypatch.setattr(MessageStore, "open", recover)
    monkeypatch.setattr(MessageStore, "close", lambda _store: calls.append("closed"))

    async def main() -> None:
        async def start() -> None:
            async with Broker(settings(tmp_path)):
                pass

        starting = asyncio.create_task(start())
        await asyncio.sleep(0)
        starting.cancel()
        asyncio.get_running_loop().call_later(0.01, goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())
    assert calls == ["begun", "recovered", "closed"]


def test_it_registers_with_every_nameserver_tells_them_changes_and_leaves(tmp_path: Path) -> None:
    async def main() -> None:
        plain = NameserverSettings(listen_port=0, kv_config_path="")
        async with Nameserver(plain) as first, Nameserver(plain) as second:
            both = f"namesrvAddr={first.address};{second.address}"
            broker = Broker(settings(tmp_path, both))
            async with broker, Dialer() as dialer:
                await dialer.request(broker.address, send_header("orders"), b"new topic")
                for nameserver in (first, second):
                    found = await route(nameserver, "orders")  # before the send is answered
                    assert found is not None
                    assert found.broker_datas[0].broker_addrs == {0: str(broker.address)}
                    assert found.queue_datas[0].write_queue_nums == 4
            assert await route(first, "orders") is None
            assert await route(second, "orders") is None

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_nameserver_that_is_down_does_not_prevent_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
            nowhere = f"namesrvAddr=127.0.0.1:{taken.getsockname()[1]}"
            async with Broker(settings(tmp_path, nowhere)) as broker, Dialer() as dialer:
                answer = await dialer.request(broker.address, send_header("orders"), b"served")
                assert answer.code == ResponseCode.SUCCESS

    with caplog.at_level(logging.WARNING, "orbitmq.broker"):
        asyncio.run(main())
    assert "registration with nameserver" in caplog.text


def test_topics_groups_offsets_and_messages_survive_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with Broker(settings(tmp_path)) as broker, Dialer() as dialer:
            answer = await dialer.request(
                broker.address, send_header("orders", queue_id=2), b"kept"
            )
            assert answer.code == ResponseCode.SUCCESS
            await dialer.request(broker.address, pull_header("orders", 0, queue_id=2))
            commit = UpdateConsumerOffset(
                consumer_group="pullers", topic="orders", queue_id=2, commit_offset=1
            )
            answer = await dialer.request(broker.address, commit)
            assert answer.code == ResponseCode.SUCCESS

    async def second() -> tuple[int, int]:
        async with Broker(settings(tmp_path)) as broker, Dialer() as dialer:
            query = QueryConsumerOffset(consumer_group="pullers", topic="orders", queue_id=2)
            answer = await dialer.request(broker.address, query)
            offset = answer.read(QueryConsumerOffsetAnswer).offset
            answer = await dialer.request(
                broker.address, send_header("orders", queue_id=2), b"next"
            )
            return offset, answer.read(SendMessageAnswer).queue_offset

    asyncio.run(first())
    assert not (tmp_path / "abort").exists()
    assert asyncio.run(second()) == (1, 1)


@pytest.mark.parametrize(("mode", "plain_is_served"), [("enforcing", False), ("permissive", True)])
def test_it_serves_tls_and_registers_over_tls(
    tmp_path: Path, mode: str, plain_is_served: bool
) -> None:
    certificates = Certificates(tmp_path)
    keys = (
        f"tls.server.mode={mode}",
        f"tls.server.certPath={certificates.server}",
        "tls.enable=true",
        f"tls.client.trustCertPath={certificates.ca}",
    )
    trusting = client_context(certificates.of_client)

    async def main() -> bool:
        tls = LiveNameserverSettings.load(from_arguments(keys)).tls
        nameserver = Nameserver(NameserverSettings(listen_port=0, kv_config_path=""), tls=tls)
        async with nameserver:
            with_nameserver = f"namesrvAddr={nameserver.address}"
            async with Broker(settings(tmp_path / "store", with_nameserver, *keys)) as broker:
                assert nameserver.routes.route("TBW102") is not None
                async with Dialer(tls=trusting) as dialer:
                    sent = await dialer.request(broker.address, send_header("orders"), b"body")
                    assert sent.code == ResponseCode.SUCCESS
                return await is_served_in_plain(broker.address)

    assert asyncio.run(main()) is plain_is_served


async def is_served_in_plain(address: Address) -> bool:
    async with Dialer() as dialer:
        try:
            answer = await dialer.request(address, send_header("orders"), b"body")
        except ConnectionClosed:
            return False
        return answer.code == ResponseCode.SUCCESS


def test_the_port_two_below_serves_too(tmp_path: Path) -> None:
    async def main() -> int:
        async with Broker(settings(tmp_path)) as broker, Dialer() as dialer:
            below = broker.address._replace(port=broker.address.port - 2)
            answer = await dialer.request(below, send_header("orders"), b"by the side door")
            return answer.code

    assert asyncio.run(main()) == ResponseCode.SUCCESS


GROUP_LIST = GetConsumerListByGroup(consumer_group="billing")


async def heartbeat(dialer: Dialer, address: Address) -> None:
    """Say that a client is in a group, on the connection to one of a broker's ports."""
    beat = HeartbeatData(
        client_id="10.0.0.7@1", consumer_data_set=(consumer("billing", tags("orders")),)
    )
    answer = await dialer.request(address, Heartbeat(), beat.to_json())
    assert answer.code == ResponseCode.SUCCESS


async def members(dialer: Dialer, address: Address) -> tuple[str, ...]:
    """Return the clients of the group, as the broker lists them."""
    answer = await dialer.request(address, GROUP_LIST)
    if answer.code != ResponseCode.SUCCESS:
        return ()
    return ConsumerIdList.from_json(answer.body).consumer_id_list


@asynccontextmanager
async def in_memory(clock: VirtualClock) -> AsyncIterator[tuple[Broker, Address, MemoryNetwork]]:
    """Run a broker on a network in memory; yield it, and its port two below."""
    network = MemoryNetwork()
    machine = Machine(
        network=network,
        disk=SimulatedDisk(),
        clock=clock,
        workers=lambda _name, _count: InlineWorkers(),
    )
    async with Broker(settings(Path("/store")), machine) as broker:
        yield broker, broker.address._replace(port=broker.address.port - 2), network


def test_a_heartbeat_at_the_port_two_below_makes_a_member_and_keeps_it_one() -> None:
    async def main(clock: VirtualClock) -> None:
        async with in_memory(clock) as (broker, below, network):
            async with Dialer(network=network) as client, Dialer(network=network) as other:
                for _ in range(10):  # five minutes, and a client is forgotten after two
                    await heartbeat(client, below)
                    await clock.sleep(30)
                    assert await members(other, broker.address) == ("10.0.0.7@1",)
                await clock.sleep(150)
                assert await members(other, broker.address) == ()

    run_virtual(main)


@pytest.mark.parametrize("closed", ["below", "main"])
def test_a_client_stays_a_member_by_the_connection_that_it_has_left(closed: str) -> None:
    async def main(clock: VirtualClock) -> None:
        async with in_memory(clock) as (broker, below, network):
            ports = {"below": below, "main": broker.address}
            gone, kept = ports.pop(closed), next(iter(ports.values()))
            async with Dialer(network=network) as other, Dialer(network=network) as staying:
                async with Dialer(network=network) as leaving:
                    await heartbeat(staying, kept)
                    await heartbeat(leaving, gone)
                    assert await members(other, broker.address) == ("10.0.0.7@1",)
                await clock.sleep(1)
                group = broker.state.members.consumers("billing")
                assert group is not None
                assert len(group.members) == 1  # each connection counted for itself
                for _ in range(10):
                    assert await members(other, broker.address) == ("10.0.0.7@1",)
                    await heartbeat(staying, kept)
                    await clock.sleep(30)
                assert await members(other, broker.address) == ("10.0.0.7@1",)

    run_virtual(main)


def test_remarks_call_the_broker_by_the_host_that_routes_name(tmp_path: Path) -> None:
    own = settings(tmp_path, "brokerPermission=0", "rejectTransactionMessage=true")

    async def main() -> list[str | None]:
        async with Broker(own) as broker, Dialer() as dialer:
            back = ConsumerSendMsgBack(group="billing", offset=0, delay_level=0)
            asked = (
                pull_header("orders", 0),
                back,
                send_header("orders", properties="TRAN_MSG\x01true\x02"),
            )
            return [(await dialer.request(broker.address, one)).remark for one in asked]

    pulling, giving_back, sending = asyncio.run(main())
    assert pulling == "the broker[127.0.0.1] pulling message is forbidden"
    assert giving_back == "the broker[127.0.0.1] sending message is forbidden"
    assert sending is not None
    assert sending.startswith("the broker[127.0.0.1] sending transaction message is forbidden")


def test_a_port_two_below_that_is_taken_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            async with Broker(settings(tmp_path, f"listenPort={port + 2}")) as broker:
                assert broker.address.port == port + 2

    with caplog.at_level(logging.WARNING, "orbitmq.broker"):
        asyncio.run(main())
    assert "vipChannelEnabled" in caplog.text


def test_a_free_port_is_chosen_again_if_the_one_two_below_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Listener.start
    refused: list[int] = []

    async def refuse_first(listener: Listener) -> None:
        if listener.address.port and not refused:
            refused.append(listener.address.port)
            raise OSError(errno.EADDRINUSE, "in use")
        await start(listener)

    async def main() -> None:
        async with Broker(settings(tmp_path)) as broker, Dialer() as dialer:
            below = broker.address._replace(port=broker.address.port - 2)
            answer = await dialer.request(below, send_header("orders"), b"by the side door")
            assert answer.code == ResponseCode.SUCCESS

    monkeypatch.setattr(Listener, "start", refuse_first)
    asyncio.run(main())
    assert len(refused) == 1
    assert "vipChannelEnabled" not in caplog.text


def test_a_port_in_use_is_an_error_and_the_store_is_unlocked(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(InvalidInput, match=f"can't listen on 127.0.0.1:{port}"):
                async with Broker(settings(tmp_path, f"listenPort={port}")):
                    pass
        async with Broker(settings(tmp_path)):
            pass

    asyncio.run(main())


def test_a_store_in_use_is_an_error_that_leaves_it_in_peace(tmp_path: Path) -> None:
    async def main() -> None:
        async with Broker(settings(tmp_path)) as broker, Dialer() as dialer:
            with pytest.raises(StoreLocked):
                async with Broker(settings(tmp_path)):
                    pass
            answer = await dialer.request(broker.address, send_header("orders"), b"still here")
            assert answer.code == ResponseCode.SUCCESS

    asyncio.run(main())


def test_held_pulls_are_answered_when_it_stops(tmp_path: Path) -> None:
    async def main() -> int:
        async with Dialer() as dialer:
            async with Broker(settings(tmp_path)) as broker:
                await dialer.request(broker.address, send_header("orders"), b"one")
                connection = await dialer.connection(broker.address)
                held = connection.start_request(
                    pull_header("orders", 1, hold_ms=20_000), timeout_ms=30_000
                )
                await connection.request(NoFields(), code=RequestCode.GET_BROKER_CONFIG)
                assert len(broker.state.held_pulls) == 1
            return (await held).code

    assert asyncio.run(main()) == ResponseCode.PULL_NOT_FOUND


def test_reloaded_settings_hold_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        live = settings(tmp_path, "logLevel=WARNING")
        async with Broker(live) as broker:
            assert logger.level == logging.WARNING
            broker.reload(from_arguments(["maxMessageSize=5", "logLevel=INFO", "brokerName=other"]))
            assert logger.level == logging.INFO
            assert broker.state.store.settings.max_message_bytes == 5

    logger = logging.getLogger("orbitmq")
    before = logger.level
    try:
        asyncio.run(main())
    finally:
        logger.setLevel(before)
    (warning,) = [one.getMessage() for one in caplog.records if "restart" in one.getMessage()]
    assert "brokerName" in warning


def test_routes_name_the_address_that_is_set(tmp_path: Path) -> None:
    async def main() -> str:
        async with Broker(settings(tmp_path, "brokerIP1=broker.example")) as broker:
            return broker.advertised.host

    assert asyncio.run(main()) == "broker.example"


def test_other_machines_are_let_in_only_on_purpose(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(InvalidInput, match="--insecure"):
            Broker(settings(tmp_path, "listenHost=0.0.0.0"))
        async with Broker(settings(tmp_path, "listenHost=0.0.0.0"), insecure=True) as broker:
            assert broker.advertised.host != "0.0.0.0"

    asyncio.run(main())


def test_a_nameserver_that_is_silent_holds_a_start_and_a_send_up_for_moments_only() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        network = MemoryNetwork()
        silent = Listener(
            Address("127.0.0.1", 9876), lambda _connection, _request: None, network=network
        )
        await silent.start()
        machine = Machine(
            network=network,
            disk=SimulatedDisk(),
            clock=clock,
            workers=lambda _name, _count: InlineWorkers(),
        )
        times = [clock.monotonic_ms()]
        broker = Broker(settings(Path("/store"), "namesrvAddr=127.0.0.1:9876"), machine)
        await broker.start()
        times.append(clock.monotonic_ms())
        async with Dialer(network=network) as dialer:
            for topic in ("orders", "bills"):
                await dialer.request(broker.address, send_header(topic), b"new topic")
                times.append(clock.monotonic_ms())
        await broker.close()
        await silent.close()
        return [later - earlier for earlier, later in pairwise(times)]

    assert run_virtual(main) == [3_000, 1_000, 0]
