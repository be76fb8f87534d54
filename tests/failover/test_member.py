"""Members of a group on a simulated store: leases that end, cuts, pauses, lost answers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.errors import ConsensusFailed, InvalidInput
from orbitmq.failover.election import ClosedPort
from orbitmq.failover.group import GroupState
from orbitmq.failover.identity import Identity
from orbitmq.failover.member import LogPlace, Member, Standing
from orbitmq.failover.settings import FailoverSettings
from orbitmq.randomness import SeededRandomness
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.consensus import SimulatedConsensus

SETTINGS = FailoverSettings(enabled=True, etcd_endpoints="127.0.0.1:2379")


class Files:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def replace(self, name: str, text: str) -> None:
        self.texts[name] = text

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)


class Broker:
    """A broker as its group sees it: an address, and a log that ends somewhere."""

    def __init__(self, group: "Group", number: int, files: Files) -> None:
        self.number = number
        self.files = files
        self.log_end = 0
        self.all_ack = True
        self.heard: list[Standing] = []
        self.client = group.servers.client(f"broker {number}")
        self.member = Member(
            store=self.client,
            group=Identity("shop", "orders", 0),
            settings=lambda: SETTINGS,
            files=files,
            clock=group.clock,
            randomness=SeededRandomness(number),
            place=self.place,
            on_standing=self.heard.append,
        )
        self._task: asyncio.Task[None] | None = None

    def place(self) -> LogPlace:
        host = f"host-{self.number}"
        return LogPlace(f"{host}:1", f"{host}:2", 0, self.log_end, all_ack=self.all_ack)

    async def start(self) -> "Broker":
        await self.member.join()
        self._task = asyncio.create_task(self.member.run())
        return self

    async def kill(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def stop(self) -> None:
        await self.kill()
        await self.member.leave()

    @property
    def state(self) -> GroupState:
        assert self.member.standing.state is not None
        return self.member.standing.state


class Group:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.servers = SimulatedConsensus(clock)
        self.files = {number: Files() for number in (1, 2, 3)}

    async def start(self, number: int) -> Broker:
        return await Broker(self, number, self.files[number]).start()


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not look():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.05)


def run(story: Callable[[Group], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        await story(Group(clock))
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main)


async def _three(group: Group) -> tuple[Broker, Broker, Broker]:
    """Return a master and two slaves, all in sync."""
    first = await group.start(1)
    await until(first.member.holds)
    second, third = await group.start(2), await group.start(3)
    await first.member.alter_in_sync([2, 3], first.state)
    await until(lambda: all(one.state.in_sync == (1, 2, 3) for one in (first, second, third)))
    return first, second, third


def test_the_first_broker_leads_and_later_ones_follow_it() -> None:
    async def story(group: Group) -> None:
        first, second, _ = await _three(group)
        assert first.state.epoch == 1
        assert second.member.standing.master is not None
        assert second.member.standing.master.ha_address == "host-1:2"
        assert not second.member.holds()
        assert [one.member.broker_id for one in (first, second)] == [1, 2]

    run(story)


def test_after_the_master_s_death_the_one_with_most_of_the_log_leads_within_its_lease() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        second.log_end, third.log_end = 50, 70
        await first.kill()
        before_ms = group.clock.monotonic_ms()
        await until(third.member.holds)
        assert group.clock.monotonic_ms() - before_ms <= SETTINGS.lease_ms + 1_500
        await until(lambda: second.member.standing.master is not None)
        assert third.state.epoch == 2
        assert third.state.in_sync == (2, 3)
        assert not second.member.holds()

    run(story)


def test_a_master_that_leaves_is_replaced_at_once() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        await first.stop()
        before_ms = group.clock.monotonic_ms()
        await until(lambda: second.member.holds() or third.member.holds())
        assert group.clock.monotonic_ms() - before_ms < 1_000

    run(story)


CLOSED = ClosedPort(1, "host-1:2")


def test_a_master_whose_port_is_closed_is_replaced_before_its_lease_ends() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        third.log_end = 70
        await first.kill()
        before_ms = group.clock.monotonic_ms()
        for one in (second, third):
            one.member.port_closed(CLOSED)
        await until(third.member.holds)
        assert group.clock.monotonic_ms() - before_ms < 500
        assert third.state.in_sync == (2, 3)

    run(story)


def test_a_master_that_is_called_gone_and_lives_stops_at_once_and_goes_on_if_it_is_faster() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        before = len(first.heard)
        second.member.port_closed(CLOSED)
        await until(lambda: len(first.heard) > before + 1)
        assert [one.leads for one in first.heard[before:]] == [False, True]
        await asyncio.sleep(10)
        assert first.member.holds()
        assert first.state.epoch == 1
        for one in (second, third):
            assert one.member.standing.master is not None
        second.log_end, third.log_end = 70, 90  # since they bid, in vain
        await first.kill()
        await until(third.member.holds)

    run(story)


def test_a_master_that_is_called_gone_and_hears_nothing_is_replaced() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        first.client.is_cut = True
        second.member.port_closed(CLOSED)
        await until(lambda: second.member.holds() or third.member.holds())
        assert first.member.holds()  # by its clock; what it does now needs the others
        stale = first.state
        first.client.is_cut = False
        await first.member.alter_in_sync([], stale)
        await until(lambda: first.member.standing.master is not None)
        assert first.state.in_sync == (2, 3)

    run(story)


def test_a_master_that_does_not_wait_for_all_is_not_called_gone() -> None:
    async def story(group: Group) -> None:
        first, second, _ = await _three(group)
        first.all_ack = False  # set while it runs
        await asyncio.sleep(2)
        await first.kill()
        before_ms = group.clock.monotonic_ms()
        second.member.port_closed(CLOSED)
        await until(lambda: second.state.epoch == 2)
        assert group.clock.monotonic_ms() - before_ms > SETTINGS.lease_ms - SETTINGS.beat_ms

    run(story)


def test_without_an_answer_of_the_store_the_lease_ends_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        await first.kill()
        second.client.is_cut = True
        second.member.port_closed(CLOSED)
        await until(lambda: "lease ends by itself: no answer" in caplog.text)
        second.client.is_cut = False
        await until(lambda: second.member.holds() or third.member.holds())

    run(story)


def test_a_cut_master_holds_nothing_before_another_is_elected() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        first.client.is_cut = True
        held = True
        while not (second.member.holds() or third.member.holds()):
            held = first.member.holds()
            await asyncio.sleep(0.01)
        assert not held
        assert not first.member.holds()
        first.client.is_cut = False
        await until(lambda: first.member.standing.master is not None)
        assert not first.member.holds()
        assert first.state.epoch == 2

    run(story)


def test_a_process_that_wakes_from_a_pause_does_not_hold_by_a_new_lease() -> None:
    async def story(group: Group) -> None:
        first, second, _ = await _three(group)
        await first.kill()  # nothing of it runs, as in a pause
        await until(second.member.holds)
        assert first.member.standing.leads  # it has heard of nothing
        assert not first.member.holds()
        woken = asyncio.create_task(first.member.run())
        while not first.member.standing.master:
            assert not first.member.holds()
            await asyncio.sleep(0.01)
        woken.cancel()

    run(story)


def test_a_change_of_the_in_sync_set_by_a_replaced_master_fails() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        stale = first.state
        first.client.is_cut = True
        await until(lambda: second.member.holds() or third.member.holds())
        first.client.is_cut = False
        await first.member.alter_in_sync([], stale)
        await until(lambda: first.member.standing.master is not None)
        assert first.state.in_sync == (2, 3)

    run(story)


def test_a_claim_whose_answer_is_lost_counts_all_the_same() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        second.log_end = 90
        await first.kill()
        second.client.loses_answers = True
        await until(lambda: second.state.epoch == 2)
        second.client.loses_answers = False
        await until(second.member.holds)
        assert not third.member.holds()

    run(story)


def test_a_compaction_delays_nothing() -> None:
    async def story(group: Group) -> None:
        first, second, third = await _three(group)
        group.servers.compact()
        await first.kill()
        await until(lambda: second.member.holds() or third.member.holds())

    run(story)


def test_a_broker_alone_in_sync_leads_again_in_a_new_epoch_and_no_other_does() -> None:
    async def story(group: Group) -> None:
        first = await group.start(1)
        await until(first.member.holds)
        second = await group.start(2)
        await first.kill()
        await asyncio.sleep(60)
        assert not second.member.holds()
        again = await group.start(1)
        await until(again.member.holds)
        assert again.member.broker_id == 1
        assert again.state.epoch == 2

    run(story)


def test_an_application_that_was_made_is_recognized_after_a_crash() -> None:
    async def story(group: Group) -> None:
        first = Broker(group, 1, group.files[1])
        first.client.loses_answers = True
        with pytest.raises(ConsensusFailed):
            await first.member.join()
        assert "brokerIdentity-temp" in group.files[1].texts
        again, other = Broker(group, 1, group.files[1]), Broker(group, 2, group.files[2])
        await other.member.join()
        await again.member.join()
        assert (again.member.broker_id, other.member.broker_id) == (1, 2)
        assert group.files[1].texts == {"brokerIdentity": "shop#orders#1"}

    run(story)


def test_the_directory_of_another_broker_is_refused() -> None:
    async def story(group: Group) -> None:
        group.files[1].replace("brokerIdentity", "shop#billing#4")
        with pytest.raises(InvalidInput, match="belongs to broker billing"):
            await group.start(1)

    run(story)


def test_of_two_processes_with_one_identity_the_older_takes_no_part_any_more() -> None:
    async def story(group: Group) -> None:
        first, _, _ = await _three(group)
        copied = await group.start(1)
        first.all_ack = False  # which is no reason to replace the other's sign of life
        await until(lambda: first._task is not None and first._task.done())
        assert not first.member.holds()
        await until(lambda: copied.member.standing.state is not None)

    run(story)
