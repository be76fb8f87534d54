"""Brokers register, live and go, over connections."""

import pytest

from orbitmq.nameserver.route_table import MinBrokerIdChange, RouteTable
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.wire.bodies.cluster import BrokerMembers, KVTable
from orbitmq.wire.bodies.registration import BrokerRegistration, body_crc32
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    GetRouteInfo,
    NotifyMinBrokerIdChange,
    PutKVConfig,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
)
from tests.nameserver.parties import (
    ADDRESS,
    CLUSTER,
    REPLICA,
    Party,
    farewell,
    topics,
    who,
    with_nameserver,
)

TWO = topics("orders", "bills")


async def register(
    party: Party, by: Dialer, header: RegisterBroker | None = None, body: bytes | None = None
) -> Frame:
    return await party.ask(header or who(), TWO.to_json() if body is None else body, by=by)


async def knows(party: Party, topic: str = "orders") -> bool:
    return (await party.ask(GetRouteInfo(topic=topic))).code == ResponseCode.SUCCESS


def signed(header: RegisterBroker, body: bytes, *, compressed: bool) -> RegisterBroker:
    fields = header.to_texts() | {"compressed": str(compressed), "bodyCrc32": str(body_crc32(body))}
    return RegisterBroker.from_texts(fields)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("count", [2, 3_000])
def test_a_registration_is_read_in_either_form(compressed: bool, count: int) -> None:
    async def scenario(party: Party) -> None:
        registration = topics(*(f"topic-{number:010d}" for number in range(count)))
        body = registration.to_compressed() if compressed else registration.to_json()
        async with party.dialer() as broker:
            header = signed(who(), body, compressed=compressed)
            assert (await register(party, broker, header, body)).code == ResponseCode.SUCCESS
            assert await knows(party, f"topic-{count - 1:010d}")

    with_nameserver(scenario)


def test_a_compressed_body_is_known_where_the_header_denies_it() -> None:
    """Java 5.4.0 with compressedRegister=true says compressed=false."""

    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            body = TWO.to_compressed()
            answer = await register(party, broker, signed(who(), body, compressed=False), body)
            assert answer.code == ResponseCode.SUCCESS
            assert await knows(party)

    with_nameserver(scenario)


def test_a_body_with_a_wrong_checksum_is_refused() -> None:
    async def scenario(party: Party) -> None:
        body = TWO.to_compressed()
        header = signed(who(), body, compressed=True)
        answer = await party.ask(header, body[:-1] + b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("crc32 not match")

    with_nameserver(scenario)


def test_a_registration_without_a_body_has_no_topics() -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            assert (await register(party, broker, body=b"")).code == ResponseCode.SUCCESS
            assert party.nameserver.routes.version_of(CLUSTER, ADDRESS) == DataVersion()

    with_nameserver(scenario)


def test_a_replica_gets_its_master_and_all_brokers_get_the_order_of_topics() -> None:
    async def scenario(party: Party) -> None:
        await party.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="a:4"))
        async with party.dialer() as first, party.dialer() as second:
            answer = await register(party, first)
            assert answer.read(RegisterBrokerAnswer) == RegisterBrokerAnswer()
            assert KVTable.from_json(answer.body).table == {"orders": "a:4"}
            answer = await register(party, second, who(address=REPLICA, broker_id=1))
            assert answer.read(RegisterBrokerAnswer) == RegisterBrokerAnswer(
                master_addr=ADDRESS, ha_server_addr="10.0.0.1:10912"
            )

    with_nameserver(scenario)


def test_the_order_of_topics_is_returned_only_if_set() -> None:
    async def scenario(party: Party) -> None:
        await party.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="a:4"))
        async with party.dialer() as broker:
            assert (await register(party, broker)).body == b""

    settings = NameserverSettings(kv_config_path="", return_order_topic_config_to_broker=False)
    with_nameserver(scenario, settings)


def test_a_broker_whose_connection_closes_is_gone_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[object] = []
    drop = RouteTable.drop

    def counted(table: RouteTable, channel: object) -> list[MinBrokerIdChange]:
        closed.append(channel)
        return drop(table, channel)

    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            for _ in range(3):  # registers again and again, and is watched once
                await register(party, broker)
            assert await knows(party)
        assert not await knows(party)

    monkeypatch.setattr(RouteTable, "drop", counted)
    with_nameserver(scenario)
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("state", "is_gone", "lines"), [(0, False, 1), (1, False, 0), (0, True, 0)]
)
def test_two_brokers_of_one_id_are_logged_unless_one_was_elected_or_is_gone(
    state: int, is_gone: bool, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as first, party.dialer() as second:
            await register(party, first)
            if is_gone:
                await first.close()
                await party.clock.sleep(1)
            body = topics("orders", state_version=state).to_json()
            await register(party, second, who(address=REPLICA), body)

    with_nameserver(scenario)
    found = [line for line in caplog.messages if "if both run, stop one" in line]
    assert len(found) == lines
    assert all(
        f"broker-a with id 0 is {REPLICA} now; {ADDRESS} had this id" in line for line in found
    )


def test_a_broker_that_unregisters_is_gone_at_once() -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            await register(party, broker)
            assert (await party.ask(farewell(who()), by=broker)).code == ResponseCode.SUCCESS
            assert not await knows(party)

    with_nameserver(scenario)


def test_a_silent_broker_is_gone_after_its_time_and_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            await register(party, broker, who(timeout_ms=60_000))
            connection = broker.connections[party.nameserver.address]
            await party.clock.sleep(59)
            assert await knows(party)
            await party.clock.sleep(7)  # the scan comes each five seconds
            assert not await knows(party)
            assert not connection.is_open

    with_nameserver(scenario)
    assert f"broker {ADDRESS} sent no heartbeat" in caplog.text


def test_heartbeats_and_questions_keep_a_broker_alive() -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            await register(party, broker, who(timeout_ms=10_000))
            beat = BrokerHeartbeat(cluster_name=CLUSTER, broker_addr=ADDRESS, broker_name="a")
            question = QueryDataVersion(
                broker_name="a", broker_addr=ADDRESS, cluster_name=CLUSTER, broker_id=0
            )
            for header in (beat, question) * 3:
                await party.clock.sleep(8)
                assert (await party.ask(header, by=broker)).code == ResponseCode.SUCCESS
            assert await knows(party)

    with_nameserver(scenario)


@pytest.mark.parametrize(
    ("asked", "changed"),
    [(TWO.topics.data_version, False), (DataVersion(counter=2, timestamp=1), True)],
)
def test_whether_topics_changed_follows_from_their_version(
    asked: DataVersion, changed: bool
) -> None:
    async def scenario(party: Party) -> None:
        question = QueryDataVersion(
            broker_name="broker-a", broker_addr=ADDRESS, cluster_name=CLUSTER, broker_id=0
        )
        async with party.dialer() as broker:
            unknown = await party.ask(question, asked.to_json(), by=broker)
            assert unknown.read(QueryDataVersionAnswer).changed
            assert unknown.body == b""
            await register(party, broker)
            answer = await party.ask(question, asked.to_json(), by=broker)
            assert answer.read(QueryDataVersionAnswer).changed is changed
            assert DataVersion.from_json(answer.body) == TWO.topics.data_version

    with_nameserver(scenario)


def test_members_are_returned() -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            await register(party, broker)
            asked = GetBrokerMemberGroup(cluster_name=CLUSTER, broker_name="broker-a")
            members = BrokerMembers.from_json((await party.ask(asked)).body).broker_member_group
            assert members is not None
            assert members.broker_addrs == {0: ADDRESS}

    with_nameserver(scenario)


@pytest.mark.parametrize("unregisters", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_brokers_are_notified_of_the_lowest_id_if_set(wanted: bool, unregisters: bool) -> None:
    heard: list[NotifyMinBrokerIdChange] = []

    def listen(_: Connection, request: Frame) -> None:
        heard.append(request.read(NotifyMinBrokerIdChange))

    async def scenario(party: Party) -> None:
        replica = Listener(Address.parse(REPLICA), listen, network=party.network)
        async with replica, party.dialer() as first, party.dialer() as second:
            await register(party, first, who(acting_master=True, timeout_ms=5_000))
            await register(party, second, who(address=REPLICA, broker_id=1, acting_master=True))
            if unregisters:
                await party.ask(farewell(who()), by=first)
            await party.clock.sleep(15)

    settings = NameserverSettings(kv_config_path="", notify_min_broker_id_changed=wanted)
    with_nameserver(scenario, settings)
    told = NotifyMinBrokerIdChange(
        min_broker_id=1, min_broker_addr=REPLICA, offline_broker_addr=ADDRESS
    )
    assert heard == ([told] if wanted else [])


def test_a_broker_that_disconnects_during_its_registration_is_not_registered() -> None:
    async def scenario(party: Party) -> None:
        body = TWO.to_compressed()  # read by a worker
        async with party.dialer() as broker:
            connection = await broker.connection(party.nameserver.address)
            connection.oneway(signed(who(), body, compressed=True), body)
        await party.clock.sleep(1)
        assert party.nameserver.routes.version_of(CLUSTER, ADDRESS) is None

    with_nameserver(scenario)


def test_bytes_that_are_no_registration_are_an_answer() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(who(), b"{")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert BrokerRegistration.__name__ in (answer.remark or "")

    with_nameserver(scenario)
