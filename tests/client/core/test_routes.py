import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from msgspec.structs import replace

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.nameservers import Nameservers
from orbitmq.client.core.publish_route import BrokerAddresses, PublishRoute
from orbitmq.client.core.routes import DefaultTopic, RouteCache, Routes
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import ConnectionClosed, NameserversFailed, NoRoute
from orbitmq.message.model import Message, MessageQueue
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.wire.bodies.route import BrokerData, TopicRouteData
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, BROKER_B, NAMES, Scene, play, route

HOUR_S = 3_600


def with_routes(
    story: Callable[[Scene, Routes], Awaitable[None]], *, names: int = 1, up: int | None = None
) -> None:
    """Run a story with the routes of a client that asks some nameservers, of which some are up."""

    async def whole(scene: Scene) -> None:
        for address in NAMES[: names if up is None else up]:
            await scene.nameserver(address)
        dialer = Dialer(network=scene.network)
        settings = scene.settings(nameserver=";".join(map(str, NAMES[:names])))
        routes = Routes(
            Nameservers(settings, dialer, scene.machine),
            BrokerAddresses(settings),
            workers=InlineWorkers(),
            clock=scene.clock,
            timeout_ms=3_000,
        )
        try:
            await story(scene, routes)
        finally:
            await routes.close()
            await dialer.close()

    play(whole)


# The table


def table(**options: int) -> RouteCache:
    return RouteCache(BrokerAddresses(ClientSettings()), **options)


def test_the_order_of_brokers_and_queues_is_no_change() -> None:
    routes = table()
    assert routes.put("orders", route("a", "b"))
    assert not routes.put("orders", route("b", "a"))
    assert routes.put("orders", route("a", "b", queues=8))
    assert routes.put("orders", route("a", queues=8))
    assert not routes.put("orders", route("a", queues=8))
    assert routes.put("orders", route("a", queues=8), default=DefaultTopic())


def test_masters_are_those_of_all_routes() -> None:
    routes = table()
    routes.put("orders", route("a", "b"))
    routes.put("bills", route("a"))
    assert set(routes.masters) == {BROKER_A, BROKER_B}
    routes.put("orders", route("a"))
    assert routes.masters == [BROKER_A]
    routes.put("orders", TopicRouteData())
    assert routes.has_master(BROKER_A)
    routes.put("bills", TopicRouteData())
    assert not routes.has_master(BROKER_A)


def test_slaves_are_the_other_brokers_of_all_routes() -> None:
    routes = table()
    addresses = {0: str(BROKER_A), 1: str(BROKER_B), 2: "nowhere"}
    broker = BrokerData(broker_name="broker-a", broker_addrs=addresses)
    routes.put("orders", TopicRouteData(broker_datas=(broker,)))
    assert routes.slaves == [BROKER_B]


def test_slaves_are_in_the_order_of_their_route_whatever_the_hashes() -> None:
    routes = table()
    addresses = {number: f"127.0.0.{number}:10911" for number in range(10)}
    broker = BrokerData(broker_name="broker-a", broker_addrs=addresses)
    routes.put("orders", TopicRouteData(broker_datas=(broker,)))
    assert list(map(str, routes.slaves)) == list(addresses.values())[1:]


def test_a_full_table_forgets_the_topic_found_first() -> None:
    routes = table(topics_max=2)
    for topic in ("first", "second", "third"):
        routes.put(topic, route("a"))
    assert routes.topics == ["second", "third"]
    assert set(routes.published) == {"second", "third"}
    assert routes.masters == [BROKER_A]


# Looking up


def test_a_route_is_found_once_and_then_known() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["orders"] = route("a")
        found = await routes.publish_route("orders")
        assert len(found.queues) == 4
        assert await routes.publish_route("orders") is found
        assert routes.published["orders"] is found
        assert scene.topics_asked() == ["orders"]

    with_routes(story)


def test_many_who_ask_at_once_wait_for_one_look_up() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.network.delay_s = 0.1
        scene.routes["orders"] = route("a")
        tasks = [asyncio.create_task(routes.publish_route("orders")) for _ in range(100)]
        await asyncio.sleep(0.05)
        tasks[0].cancel()  # takes it from nobody
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()
        assert len({id(task.result()) for task in tasks[1:]}) == 1
        assert scene.topics_asked() == ["orders"]

    with_routes(story)


def test_a_missing_topic_will_be_made_after_the_default_one() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["TBW102"] = route("a", "b", queues=8, perm=7)
        found = await routes.publish_route("orders")
        assert found.is_default
        assert len(found.queues) == 8
        await routes.publish_route("bills", DefaultTopic(queues=1))
        assert scene.topics_asked() == ["orders", "TBW102", "bills"]
        scene.routes["orders"] = route("a")
        await routes.refresh()
        assert not routes.published["orders"].is_default
        assert len(routes.published["orders"].queues) == 4
        assert routes.published["bills"].is_default

    with_routes(story)


def test_a_missing_topic_is_an_error_that_tells_who_said_what() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        with pytest.raises(NoRoute) as caught:
            await routes.publish_route("orders")
        error = caught.value
        assert (error.topic, error.is_missing, error.code) == ("orders", True, 10005)
        assert error.answers == {str(one): "TOPIC_NOT_EXIST: no orders here" for one in NAMES}
        for word in ("orders", *map(str, NAMES), "topic create", "start the broker"):
            assert word in str(error)

    with_routes(story, names=3)


def test_the_advice_of_a_nameserver_is_not_given_beside_our_own() -> None:
    async def main() -> str:
        async with EmbeddedCluster(settings={"autoCreateTopicEnable": "false"}) as cluster:
            settings = ClientSettings(nameserver=cluster.nameserver, keep_open_ms=0)
            core = await ClientCore.acquire(settings)
            with pytest.raises(NoRoute) as caught:
                await core.routes.publish_route("orders")
            await core.release()
            assert "\n" in caught.value.answers[cluster.nameserver]
            return str(caught.value)

    said = asyncio.run(main())
    assert said.count("reate it") == 1
    assert "\n" not in said


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (route("a", perm=4), "broker-a has perm 4"),
        (route("a", queues=0), "0 queues to write to"),
        (replace(route("a"), broker_datas=()), "broker-a has no master"),
        (
            replace(
                route("a"),
                broker_datas=(BrokerData(broker_name="broker-a", broker_addrs={1: "b:1"}),),
            ),
            "broker-a has no master",
        ),
        (
            replace(
                route("a"),
                broker_datas=(BrokerData(broker_name="broker-a", broker_addrs={0: "nowhere"}),),
            ),
            "broker-a advertises nowhere, which is no host:port",
        ),
        (TopicRouteData(), "no queues"),
    ],
)
def test_an_unwritable_topic_is_told_from_a_missing_one(data: TopicRouteData, reason: str) -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes |= {"orders": data, "TBW102": route("a")}
        with pytest.raises(NoRoute, match=reason) as caught:
            await routes.publish_route("orders")
        assert not caught.value.is_missing
        scene.routes["orders"] = route("a")
        assert (await routes.publish_route("orders")).queues  # it is asked for again

    with_routes(story)


@pytest.mark.parametrize("silent", range(2))
@pytest.mark.parametrize("topic", ["orders", "TBW102"])
def test_a_silent_nameserver_leaves_time_to_ask_the_others(silent: int, topic: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.listen(NAMES[silent], lambda _connection, _request: None)
        await scene.nameserver(NAMES[1 - silent])
        await scene.broker()
        scene.routes[topic] = route("a")
        settings = scene.settings(nameserver=f"{NAMES[0]};{NAMES[1]}", keep_open_ms=0)
        core = await ClientCore.acquire(settings, scene.machine)
        async with asyncio.timeout(2):  # of three seconds that a look-up, and a send, has
            assert (await core.routes.publish_route("orders")).queues
        assert next(core.nameservers.in_turn()) == NAMES[1 - silent]
        await core.release()

    play(story)


def test_no_answer_at_all_is_another_error() -> None:
    async def story(_scene: Scene, routes: Routes) -> None:
        with pytest.raises(NameserversFailed, match="answers: no connection to names-1:9876"):
            await routes.publish_route("orders")

    with_routes(story, up=0)


def test_a_topic_that_one_nameserver_knows_is_found() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["orders"] = route("a")
        knows = Response(body=route("a").to_standard_json())
        for address, answer in zip(
            NAMES, (Response(17), Response(body=b"no JSON"), knows), strict=True
        ):
            await scene.listen(address, partial(_say, answer))
        assert (await routes.publish_route("orders")).queues

    with_routes(story, names=3, up=0)


def _say(answer: Response, _connection: Connection, _request: Frame) -> Response:
    return answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Response(1, remark="name server not ready"), "SYSTEM_ERROR: name server not ready"),
        (Response(body=b"no JSON"), "TopicRouteData"),
        (Response(), "TopicRouteData"),
        (Response(body=route("a", order_topic_conf="x").to_standard_json()), "order config"),
    ],
)
def test_a_topic_that_cannot_be_told_of_is_not_taken_for_a_missing_one(
    answer: Response, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["TBW102"] = route("a")
        await scene.nameserver(NAMES[0])
        await routes.publish_route("TBW102")
        scene.routes["orders"] = route("b")
        routes.cache.put("known", route("a"))
        await scene.open.aclose()
        await scene.listen(NAMES[0], partial(_say, answer))
        with pytest.raises(NoRoute, match=told) as caught:
            await routes.publish_route("orders")
        assert not caught.value.is_missing
        await routes.refresh()
        assert (await routes.publish_route("known")).queues  # what is known stays

    with_routes(story, up=0)
    assert "2 routes can't be refreshed, such as that of TBW102" in caplog.text


def test_a_default_topic_without_a_master_is_looked_up_for_each_send() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        sound = route("a", perm=7)
        lost = replace(sound.broker_datas[0], broker_addrs={1: "10.0.0.2:10911"})
        scene.routes["TBW102"] = replace(sound, broker_datas=(lost,))
        with pytest.raises(NoRoute):
            await routes.publish_route("orders")
        scene.routes["TBW102"] = sound
        assert (await routes.publish_route("orders")).is_default

    with_routes(story)


def test_where_a_missing_topic_would_be_made_is_looked_up_again_with_it() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["TBW102"] = route("a", perm=7)
        await routes.publish_route("orders")
        scene.routes["TBW102"] = route("b", perm=7)  # the master of the other one is gone
        await scene.clock.sleep(2)
        routes.invalidate("orders")
        await scene.clock.sleep(1)
        found = routes.published["orders"]
        assert found.is_default
        assert {queue.broker_name for queue in found.queues} == {"broker-b"}
        del scene.routes["TBW102"]  # as autoCreateTopicEnable=false: the route stays, as others do
        await scene.clock.sleep(2)
        routes.invalidate("orders")
        await scene.clock.sleep(1)
        assert routes.published["orders"] == found

    with_routes(story)


def test_nothing_is_made_after_the_default_topic_while_nobody_answers() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["TBW102"] = route("a")
        listener = await scene.nameserver(NAMES[0])
        await routes.publish_route("TBW102")
        await listener.close()
        with pytest.raises(NameserversFailed):
            await routes.publish_route("orders")

    with_routes(story, up=0)


def test_the_json_of_old_nameservers_is_read() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        body = route("a").to_json(java_keys=True)
        assert b"{0:" in body
        await scene.listen(NAMES[0], lambda _connection, _request: Response(body=body))
        assert (await routes.publish_route("orders")).address_of(
            MessageQueue("orders", "broker-a", 0)
        ) == BROKER_A

    with_routes(story, up=0)


def test_a_look_up_that_a_close_ends_is_an_error_to_who_waits() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        waiting = asyncio.create_task(routes.publish_route("orders"))
        await asyncio.sleep(1)
        await routes.close()
        with pytest.raises(ConnectionClosed):
            await waiting

    with_routes(story, up=0)


# Looking again


def test_changes_are_told() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        told: list[tuple[str, int]] = []

        def listen(topic: str, found: PublishRoute) -> None:
            told.append((topic, len(found.queues)))

        routes.when_changed(listen)
        scene.routes |= {"orders": route("a"), "bills": route("a")}
        for topic in ("orders", "bills"):
            await routes.publish_route(topic)
        running = asyncio.create_task(routes.run(30_000))
        await scene.clock.sleep(61)
        assert told == [("orders", 4), ("bills", 4)]
        scene.routes["orders"] = route("a", "b")
        await scene.clock.sleep(30)
        assert told[2:] == [("orders", 8)]
        running.cancel()
        times = [at for at, _, topic in scene.asked if topic == "orders"]
        assert times == [0, 30_000, 60_000, 90_000]

    with_routes(story)


def test_a_failure_has_a_topic_looked_up_again_once_a_second() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["orders"] = route("a")
        routes.invalidate("orders")  # not known: nothing to look at
        await routes.publish_route("orders")
        for _ in range(100):
            routes.invalidate("orders")
            await scene.clock.sleep(0.1)
        assert len(scene.asked) == 10
        assert [at for at, _, _ in scene.asked[:2]] == [0, 1_000]

    with_routes(story)


def test_failures_ask_no_more_often_when_look_ups_fail_too() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["TBW102"] = route("a")
        await routes.publish_route("orders")  # will be made, and is missing until then
        asked = len(scene.asked)
        await scene.clock.sleep(5)
        for _ in range(100):
            routes.invalidate("orders")
            await scene.clock.sleep(0.1)
        assert scene.topics_asked()[asked:] == ["orders", "TBW102"] * 10

    with_routes(story)


def test_routes_stay_while_nameservers_are_gone_for_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        listener = await scene.nameserver(NAMES[0])
        topics = [f"topic-{number}" for number in range(100)]
        scene.routes |= dict.fromkeys(topics, route("a"))
        for topic in topics:
            await routes.publish_route(topic)
        running = asyncio.create_task(routes.run(30_000))
        await listener.close()
        await scene.clock.sleep(HOUR_S)
        for topic in topics:
            assert len((await routes.publish_route(topic)).queues) == 4
        assert caplog.messages.count("nameservers answer again") == 0
        scene.routes |= dict.fromkeys(topics, route("b"))
        await scene.nameserver(NAMES[0])
        await scene.clock.sleep(31)
        assert {found.queues[0].broker_name for found in routes.published.values()} == {"broker-b"}
        assert sum("routes are not refreshed" in line for line in caplog.messages) == 1
        assert caplog.messages.count("nameservers answer again") == 1
        running.cancel()

    with caplog.at_level(logging.INFO):
        with_routes(story, up=0)


def test_a_nameserver_that_forgot_a_topic_changes_nothing() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        scene.routes["orders"] = route("a")
        found = await routes.publish_route("orders")
        scene.routes.clear()  # as one that was just started, before brokers registered
        await routes.refresh()
        assert await routes.publish_route("orders") is found

    with_routes(story)


def test_ten_thousand_topics() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        topics = [f"topic-{number}" for number in range(10_000)]
        scene.routes |= dict.fromkeys(topics, route("a", "b"))
        await asyncio.gather(*map(routes.publish_route, topics))
        assert len(scene.asked) == 10_000
        before = dict(routes.published)
        await routes.refresh()
        assert len(scene.asked) == 20_000
        assert all(routes.published[topic] is found for topic, found in before.items())
        assert set(routes.cache.masters) == {BROKER_A, BROKER_B}

    with_routes(story)


def test_a_broker_that_is_given_as_nameserver_is_recognised() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            (address,) = cluster.brokers
            async with Producer("billing", nameserver=address) as producer:
                wanted = (
                    f"{address} looks like a broker, not a nameserver; nameservers listen on 9876"
                )
                with pytest.raises(NoRoute, match=wanted) as caught:
                    await producer.send(Message("orders", b"paid"))
                assert str(caught.value).count(address) == 1

    asyncio.run(main())


def test_nameservers_without_an_answer_are_known_while_they_are_asked() -> None:
    async def story(scene: Scene, routes: Routes) -> None:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        asking = asyncio.create_task(routes.publish_route("orders"))
        await scene.clock.sleep(0.01)
        assert routes.unanswered == {str(NAMES[0]): "no answer yet"}
        with pytest.raises(NameserversFailed):
            await asking
        assert routes.unanswered == {}

    with_routes(story, up=0)
