"""A nameserver as a whole: it starts, answers, and stops."""

import asyncio
from pathlib import Path

import pytest

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.nameserver.handlers.brokers import BrokerHandlers
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.dialer import Dialer
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.route import PutKVConfig
from tests.nameserver.parties import Party, topics, who, with_nameserver

ANY_PORT = NameserverSettings(listen_port=0, kv_config_path="")


def test_it_serves_over_tcp_with_a_thread_of_its_own(tmp_path: Path) -> None:
    settings = NameserverSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json"))

    async def scenario() -> None:
        async with Nameserver(settings) as nameserver:
            put = PutKVConfig(namespace="n", key="k", value="v")

            def ask() -> int:
                with BlockingConnection(nameserver.address) as connection:
                    return connection.request(put).code

            assert await asyncio.to_thread(ask) == ResponseCode.SUCCESS

    asyncio.run(scenario())
    assert (tmp_path / "kv.json").is_file()


def test_every_code_that_java_serves_is_served() -> None:
    expected = {
        *("PUT_KV_CONFIG", "GET_KV_CONFIG", "DELETE_KV_CONFIG", "GET_KVLIST_BY_NAMESPACE"),
        *("QUERY_DATA_VERSION", "REGISTER_BROKER", "UNREGISTER_BROKER", "BROKER_HEARTBEAT"),
        *("GET_BROKER_MEMBER_GROUP", "GET_BROKER_CLUSTER_INFO", "WIPE_WRITE_PERM_OF_BROKER"),
        *("ADD_WRITE_PERM_OF_BROKER", "GET_ALL_TOPIC_LIST_FROM_NAMESERVER"),
        *("DELETE_TOPIC_IN_NAMESRV", "REGISTER_TOPIC_IN_NAMESRV", "GET_TOPICS_BY_CLUSTER"),
        *("GET_SYSTEM_TOPIC_LIST_FROM_NS", "GET_UNIT_TOPIC_LIST", "GET_HAS_UNIT_SUB_TOPIC_LIST"),
        *("GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", "UPDATE_NAMESRV_CONFIG", "GET_NAMESRV_CONFIG"),
        "GET_ROUTEINFO_BY_TOPIC",
    }
    served = Nameserver(ANY_PORT, workers=InlineWorkers()).handlers.codes
    assert {RequestCode(code).name for code in served} == expected


def test_a_code_that_is_not_served_is_answered_so() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(NoFields(), code=9999)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    with_nameserver(scenario)


def test_a_port_in_use_is_an_error_and_leaves_nothing_open() -> None:
    async def scenario() -> None:
        async with Nameserver(ANY_PORT) as first:
            port = first.address.port
            second = Nameserver(NameserverSettings(listen_port=port, kv_config_path=""))
            with pytest.raises(InvalidInput, match=f"can't listen on 127.0.0.1:{port}: "):
                async with second:
                    pass

    asyncio.run(scenario())


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text("[")

    async def scenario(_: VirtualClock) -> None:
        settings = NameserverSettings(kv_config_path=str(tmp_path / "kv.json"))
        async with Nameserver(settings, network=MemoryNetwork(), workers=InlineWorkers()):
            pass

    with pytest.raises(InvalidSetting, match="kv.json is damaged"):
        run_virtual(scenario)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "nameserver.example"])
def test_an_address_that_others_reach_has_to_be_meant(host: str) -> None:
    settings = NameserverSettings(listen_host=host, kv_config_path="")
    with pytest.raises(InvalidInput, match="--insecure"):
        Nameserver(settings)
    assert Nameserver(settings, workers=InlineWorkers(), insecure=True).address.host == host


def test_two_nameservers_know_a_broker_that_registers_with_both() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        servers = [
            Nameserver(
                NameserverSettings(listen_port=port, kv_config_path=""),
                network=network,
                clock=clock,
                workers=InlineWorkers(),
            )
            for port in (9876, 9877)
        ]
        async with servers[0], servers[1], Dialer(network=network) as broker:
            for server in servers:
                await broker.request(server.address, who(), topics("orders", "bills").to_json())
            routes = [server.routes.route("orders") for server in servers]
            assert routes[0] is not None
            assert routes[0] == routes[1]

    run_virtual(scenario)


def test_a_stop_closes_every_connection_and_ends_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []

    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        nameserver = Nameserver(ANY_PORT, network=network, clock=clock, workers=InlineWorkers())
        async with Dialer(network=network) as broker:
            await nameserver.start()
            await broker.request(nameserver.address, who(), topics("orders", "bills").to_json())
            connection = broker.connections[nameserver.address]
            await clock.sleep(11)
            await nameserver.close()
            await clock.sleep(60)
            assert not connection.is_open
            assert repr(nameserver).endswith("<RouteTable 0 brokers, <TopicTable 0 topics>>>")

    monkeypatch.setattr(BrokerHandlers, "expire", lambda _: scans.append(1))
    run_virtual(scenario)
    assert len(scans) == 2
