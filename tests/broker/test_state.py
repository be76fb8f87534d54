"""What a broker keeps: a topic is on the disk before a send to it is acknowledged."""

import asyncio
import errno
from functools import partial

from orbitmq.broker.machine import Machine
from orbitmq.broker.sending.inbox import PutOutcome
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.state import State
from orbitmq.broker.tables.topics import TOPICS_FILE
from orbitmq.message.host import Host
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.message_store import STORE_WORKERS
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from tests.broker.world import SMALL_STORE
from tests.store.logs import incoming

TOPICS = f"/store/config/{TOPICS_FILE}"


async def opened(
    clock: VirtualClock, disk: SimulatedDisk, changes: list[str], registration_s: float = 0
) -> State:
    settings = LiveSettings(BrokerSettings(store_path_root_dir="/store"), SMALL_STORE)
    machine = Machine(disk=disk, clock=clock, workers=lambda _name, _count: InlineWorkers())

    async def tell() -> None:
        changes.append("topics")
        await clock.sleep(registration_s)

    state = State(settings, machine, tell, lambda: Host.parse("127.0.0.1:10911"))
    await state.open(lambda _done, _total: None)
    return state


def test_a_send_to_a_new_topic_is_acknowledged_after_registration_and_save() -> None:
    disk = SimulatedDisk()
    changes: list[str] = []
    results: list[tuple[PutOutcome, bool]] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, disk, changes)
        assert state.topics.for_send("orders", "TBW102", 4, 0) is not None

        def note(outcome: PutOutcome) -> None:
            results.append((outcome, disk.exists(TOPICS) and changes == ["topics"]))

        state.inbox.put(incoming(), note)
        await clock.sleep(1)
        state.store.close()

    run_virtual(main)
    assert changes == ["topics"]
    ((outcome, was_known),) = results
    assert isinstance(outcome, PutResult)
    assert (outcome.status, was_known) == (PutStatus.PUT_OK, True)


def test_a_stop_does_not_wait_for_the_registration_of_a_new_topic() -> None:
    disk = SimulatedDisk()

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, disk, [], registration_s=1)
        began_ms = clock.now_ms()
        for topic in ("orders", "late"):
            assert state.topics.for_send(topic, "TBW102", 4, 0) is not None
            await state.stop_saving_topics()
            assert len(asyncio.all_tasks()) == 1
        assert clock.now_ms() == began_ms
        assert state.persistence.is_changed(TOPICS_FILE)
        state.store.close()

    run_virtual(main)


def test_a_flood_of_new_topics_delays_no_other_send() -> None:
    """One client sends to a new topic every 2 ms; nameservers take 50 ms for each registration."""
    results: list[tuple[str, int]] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, SimulatedDisk(), [], registration_s=0.05)
        state.topics.for_send("known", "TBW102", 4, 0)
        await clock.sleep(1)

        def send(topic: str) -> None:
            began_ms = clock.now_ms()
            note = partial(_note, results, topic, clock, began_ms)
            state.inbox.put(incoming(topic=topic), note)

        for number in range(500):
            state.topics.for_send(f"new-{number}", "TBW102", 4, 0)
            send(f"new-{number}")
            send("known")
            await clock.sleep(0.002)
        await clock.sleep(1)
        state.store.close()

    run_virtual(main)
    waits = {
        name: [ms for topic, ms in results if topic.startswith(name)] for name in ("known", "new")
    }
    assert len(waits["known"]) == len(waits["new"]) == 500
    assert max(waits["known"]) == 0
    assert max(waits["new"]) <= 100  # at most the round in progress and the next


def _note(
    results: list[tuple[str, int]], topic: str, clock: VirtualClock, began_ms: int, _: PutOutcome
) -> None:
    results.append((topic, clock.now_ms() - began_ms))


def test_a_topic_deleted_and_created_again_during_a_save_is_held_for_the_next_one() -> None:
    results: list[PutOutcome] = []
    rounds: list[str] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, SimulatedDisk(), rounds, registration_s=0.05)
        state.topics.for_send("orders", "TBW102", 4, 0)
        await clock.sleep(0.01)
        state.topics.delete("orders")
        state.topics.for_send("orders", "TBW102", 4, 0)
        state.inbox.put(incoming(), results.append)
        await clock.sleep(0.05)
        assert (len(rounds), results) == (2, [])
        await clock.sleep(0.05)
        assert len(results) == 1
        state.store.close()

    run_virtual(main)


def test_a_failed_save_of_topics_does_not_block_sends() -> None:
    disk = SimulatedDisk()
    results: list[PutOutcome] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, disk, [])
        disk.fail("write", "config", errno.ENOSPC)
        state.topics.for_send("orders", "TBW102", 4, 0)
        state.inbox.put(incoming(), results.append)
        await clock.sleep(1)
        assert len(results) == 1
        state.persistence.save_changed()
        await clock.sleep(1)
        assert disk.exists(TOPICS)
        state.store.close()

    run_virtual(main)


def test_all_tables_survive_a_restart() -> None:
    disk = SimulatedDisk()

    async def first(clock: VirtualClock) -> None:
        state = await opened(clock, disk, [])
        state.topics.for_send("orders", "TBW102", 4, 0)
        assert state.groups.get("pullers") is not None
        state.offsets.commit("pullers", "orders", 2, 17)
        by_sql = SubscriptionData(topic="orders", sub_string="a > 1", expression_type="SQL92")
        state.filters.register("pullers", [by_sql])
        await state.persistence.save_all()
        state.store.close()

    async def second(clock: VirtualClock) -> tuple[bool, bool, int, bool]:
        state = await opened(clock, disk, [])
        found = (
            "orders" in state.topics.table,
            "pullers" in state.groups,
            state.offsets.query("pullers", "orders", 2),
            state.filters.get("pullers", "orders") is not None,
        )
        state.store.close()
        return found

    run_virtual(first)
    assert run_virtual(second) == (True, True, 17, True)


def test_a_deleted_topic_starts_again_at_0() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        state = await opened(clock, SimulatedDisk(), [])
        offsets = [state.store.append([incoming()])[0].queue_offset for _ in range(2)]
        state.delete_topic("orders")
        offsets.append(state.store.append([incoming()])[0].queue_offset)
        state.store.close()
        return offsets

    assert run_virtual(main) == [0, 1, 0]


def test_the_store_has_the_threads_that_it_needs() -> None:
    made: dict[str, int] = {}

    def workers(name: str, count: int) -> InlineWorkers:
        made[name] = count
        return InlineWorkers()

    async def main(clock: VirtualClock) -> None:
        machine = Machine(disk=SimulatedDisk(), clock=clock, workers=workers)
        settings = LiveSettings(BrokerSettings(store_path_root_dir="/store"), SMALL_STORE)

        async def tell() -> None:
            pass

        State(settings, machine, tell, lambda: Host.parse("127.0.0.1:10911"))

    run_virtual(main)
    assert made["store"] == STORE_WORKERS == 5


def test_what_was_admitted_before_its_topic_was_deleted_goes_with_it() -> None:
    results: list[PutOutcome] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, SimulatedDisk(), [])
        state.inbox.put(incoming(), results.append)
        state.delete_topic("orders")
        await clock.sleep(1)
        assert state.store.queues.queue("orders", 0) is None
        state.store.close()

    run_virtual(main)
    assert len(results) == 1
