"""The simulated consensus store keeps the promises that elections stand on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.errors import ConsensusFailed
from orbitmq.failover.consensus import Change
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.consensus import SimulatedConsensus
from orbitmq.testing.processes import Process


def run(story: Callable[[SimulatedConsensus, VirtualClock], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        await story(SimulatedConsensus(clock), clock)

    run_virtual(main)


def test_a_change_is_made_only_on_the_expected_revisions() -> None:
    async def story(servers: SimulatedConsensus, _clock: VirtualClock) -> None:
        one, two = servers.client("one"), servers.client("two")
        assert await one.change({"k": 0}, [Change("k", b"1")])
        assert not await two.change({"k": 0}, [Change("k", b"2")])
        seen = (await two.read("k")).values["k"]
        assert seen.value == b"1"
        assert await two.change({"k": seen.revision, "other": 0}, [Change("k", None)])
        assert (await one.read("")).values == {}

    run(story)


def test_a_lease_that_is_kept_alive_goes_on_and_ends_after_its_time() -> None:
    async def story(servers: SimulatedConsensus, clock: VirtualClock) -> None:
        client = servers.client("one")
        lease = await client.grant(5)
        assert await client.change({}, [Change("alive", b"", lease)])
        await asyncio.sleep(4)
        assert await client.keep_alive(lease)
        await asyncio.sleep(4)
        seen = await client.read("alive")
        assert seen.values
        before_ms = clock.monotonic_ms()
        await client.wait("alive", seen.revision, 60)
        assert clock.monotonic_ms() - before_ms < 1_100
        assert not (await client.read("alive")).values
        assert not await client.keep_alive(lease)
        assert not await client.change({}, [Change("alive", b"", lease)])

    run(story)


def test_a_wait_ends_by_a_change_a_compaction_or_its_time() -> None:
    async def story(servers: SimulatedConsensus, clock: VirtualClock) -> None:
        client = servers.client("one")
        revision = (await client.read("a/")).revision
        before_ms = clock.monotonic_ms()
        await client.wait("a/", revision, 3)
        assert clock.monotonic_ms() - before_ms >= 3_000
        await client.change({}, [Change("b/1", b"")])
        waiting = asyncio.create_task(client.wait("a/", revision, 60))
        await asyncio.sleep(1)
        assert not waiting.done()
        await client.change({}, [Change("a/1", b"")])
        await waiting
        revision = (await client.read("a/")).revision
        await client.change({}, [Change("b/1", b"x")])
        servers.compact()
        before_ms = clock.monotonic_ms()
        await client.wait("a/", revision, 60)  # it can't know
        assert clock.monotonic_ms() - before_ms < 1_000

    run(story)


def test_a_cut_client_gets_no_answer_and_a_lost_answer_hides_a_change() -> None:
    async def story(servers: SimulatedConsensus, _clock: VirtualClock) -> None:
        client, other = servers.client("one"), servers.client("two")
        client.is_cut = True
        with pytest.raises(ConsensusFailed):
            await client.change({}, [Change("k", b"1")])
        assert not (await other.read("k")).values
        client.is_cut, client.loses_answers = False, True
        with pytest.raises(ConsensusFailed):
            await client.change({}, [Change("k", b"1")])
        assert (await other.read("k")).values["k"].value == b"1"

    run(story)


def test_when_it_is_away_no_client_gets_an_answer_and_leases_end() -> None:
    async def story(servers: SimulatedConsensus, clock: VirtualClock) -> None:
        client, other = servers.client("one"), servers.client("two")
        lease = await client.grant(5)
        servers.is_away = True
        for one in (client, other):
            with pytest.raises(ConsensusFailed):
                await one.read("")
        await clock.sleep(5)
        servers.is_away = False
        assert not await client.keep_alive(lease)

    run(story)


def test_no_change_wakes_what_a_killed_process_had_waiting() -> None:
    async def story(servers: SimulatedConsensus, clock: VirtualClock) -> None:
        client, other = servers.client("one"), servers.client("two")
        process, woken = Process("one"), []

        async def wait() -> None:
            await client.wait("k", 100, 600)
            woken.append("killed")

        process.start(wait())
        await clock.sleep(1)
        process.kill()
        client.is_dead = True
        await other.change({}, [Change("k", b"1")])
        servers.compact()
        await clock.sleep(1)
        assert woken == []
        process.discard()

    run(story)
