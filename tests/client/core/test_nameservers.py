import asyncio
import logging

import pytest

from orbitmq.client.core.machine import Machine
from orbitmq.client.core.nameservers import Nameservers
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import InvalidInput, NameserversFailed, NoNameserver
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo
from tests.client.scene import NAMES, Scene, play, route
from tests.net.transport.test_web_text import WebServer

ALL = ";".join(map(str, NAMES))
WEB = Address("web", 8080)


def nameservers(scene: Scene, **settings: object) -> Nameservers:
    dialer = Dialer(network=scene.network)
    scene.open.push_async_callback(dialer.close)
    return Nameservers(ClientSettings(**settings), dialer, scene.machine)  # type: ignore[arg-type]


async def ask(names: Nameservers, topic: str = "orders") -> Frame:
    return await names.request(GetRouteInfo(topic=topic), timeout_ms=1_000)


def test_the_list_is_shuffled_and_whole() -> None:
    async def story(scene: Scene) -> None:
        orders = {nameservers(scene, nameserver=ALL).addresses for _ in range(50)}
        assert {frozenset(order) for order in orders} == {frozenset(NAMES)}
        assert len(orders) == 6

    play(story)


def test_one_is_asked_until_it_fails_and_then_the_next() -> None:
    async def story(scene: Scene) -> None:
        scene.routes["orders"] = route("a")
        listeners = {address: await scene.nameserver(address) for address in NAMES}
        names = nameservers(scene, nameserver=ALL)
        first, second, _ = names.addresses
        for _ in range(3):
            await ask(names)
        assert {address for _, address, _ in scene.asked} == {first}
        await listeners[first].close()
        for _ in range(3):
            await ask(names)
        assert [address for _, address, _ in scene.asked[3:]] == [second] * 3

    play(story)


def test_what_became_of_each_request_is_told_if_none_answers() -> None:
    async def story(scene: Scene) -> None:
        names = nameservers(scene, nameserver=ALL)
        with pytest.raises(NameserversFailed) as caught:
            await ask(names)
        assert set(caught.value.answers) == {str(address) for address in NAMES}
        assert all("no listener" in answer for answer in caught.value.answers.values())

    play(story)


def test_a_silent_one_is_left_after_its_time() -> None:
    async def story(scene: Scene) -> None:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        await scene.nameserver(NAMES[1])
        names = nameservers(scene, nameserver=f"{NAMES[0]};{NAMES[1]}")
        await ask(names)
        began = scene.clock.monotonic_ms()
        assert began in (0, 1_000)  # by chance it was first, or not
        await ask(names)
        assert scene.clock.monotonic_ms() == began
        assert names.addresses[names.addresses.index(NAMES[1])] == next(names.in_turn())

    play(story)


def test_the_environment_is_asked_where_settings_say_nothing() -> None:
    async def story(scene: Scene) -> None:
        said = {"NAMESRV_ADDR": "env-1:9876;env-2:9876"}
        machine = Machine(network=scene.network, environment=lambda name: said.get(name, ""))
        names = Nameservers(ClientSettings(), Dialer(network=scene.network), machine)
        assert set(names.addresses) == {Address("env-1", 9876), Address("env-2", 9876)}
        said["NAMESRV_ADDR"] = "nonsense"
        with pytest.raises(InvalidInput, match="NAMESRV_ADDR.*nonsense"):
            Nameservers(ClientSettings(), Dialer(network=scene.network), machine)

    play(story)


def test_no_nameserver_is_an_error_that_names_the_ways_to_set_one() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(NoNameserver) as caught:
            nameservers(scene)
        told = str(caught.value)
        for way in ("nameserver=", "NAMESRV_ADDR", "namesrvAddr", "nameserver_url="):
            assert way in told
        assert caught.value.code == 10004

    play(story)


def test_a_list_behind_a_url_is_fetched_every_two_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        web = WebServer(b"HTTP/1.1 200 OK\r\n\r\nnames-1:9876;names-2:9876\nignored")
        await web.listen(scene.network, WEB)
        names = nameservers(scene, nameserver_url=f"http://{WEB}/nsaddr", unit_name="u1")
        assert names.addresses == ()
        await names.start()
        assert set(names.addresses) == {NAMES[0], NAMES[1]}
        assert web.requests == [b"GET /nsaddr-u1?nofix=1 HTTP/1.0"]
        running = asyncio.create_task(names.run())
        web.answer = b"HTTP/1.1 200 OK\r\n\r\nnames-3:9876;names-2:9876"
        await scene.clock.sleep(119)
        assert NAMES[2] not in names.addresses
        await scene.clock.sleep(2)
        assert set(names.addresses) == {NAMES[1], NAMES[2]}
        web.answer = b"HTTP/1.1 503 Busy\r\n\r\n"
        await scene.clock.sleep(600)
        assert set(names.addresses) == {NAMES[1], NAMES[2]}
        assert caplog.text.count("stays as it is") == 1
        running.cancel()

    with caplog.at_level(logging.WARNING):
        play(story)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_list_that_cannot_be_fetched_at_the_start_is_an_error(answer: bytes) -> None:
    async def story(scene: Scene) -> None:
        await WebServer(answer).listen(scene.network, WEB)
        names = nameservers(scene, nameserver_url=f"http://{WEB}/nsaddr")
        with pytest.raises(NoNameserver, match="nameserver_url"):
            await names.start()

    play(story)


def test_a_fixed_list_asks_no_url() -> None:
    async def story(scene: Scene) -> None:
        names = nameservers(scene, nameserver=ALL)
        await names.start()
        await names.run()  # returns at once

    play(story)
