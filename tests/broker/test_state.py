"""What a broker keeps: a topic is on the disk before a send to it is acknowledged."""

import errno

from orbitmq.broker.machine import Machine
from orbitmq.broker.sending.inbox import Outcome
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.state import State
from orbitmq.broker.tables.topics import TOPICS_FILE
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.message_store import STORE_WORKERS
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from tests.broker.world import SMALL_STORE
from tests.store.logs import incoming

TOPICS = f"/store/config/{TOPICS_FILE}"


async def opened(clock: VirtualClock, disk: SimulatedDisk, changes: list[str]) -> State:
    settings = LiveSettings(BrokerSettings(store_path_root_dir="/store"), SMALL_STORE)
    machine = Machine(disk=disk, clock=clock, workers=lambda _name, _count: InlineWorkers())

    async def tell() -> None:
        changes.append("topics")

    state = State(settings, machine, tell)
    await state.open(lambda _done, _total: None)
    return state


def test_whoever_sends_to_a_new_topic_is_told_when_nameservers_and_the_disk_know_it() -> None:
    disk = SimulatedDisk()
    changes: list[str] = []
    told: list[tuple[Outcome, bool]] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, disk, changes)
        assert state.topics.for_send("orders", "TBW102", 4, 0) is not None

        def note(outcome: Outcome) -> None:
            told.append((outcome, disk.exists(TOPICS) and changes == ["topics"]))

        state.turn.put(incoming(), note)
        await clock.sleep(1)
        state.store.close()

    run_virtual(main)
    assert changes == ["topics"]
    ((outcome, was_known),) = told
    assert isinstance(outcome, PutResult)
    assert (outcome.status, was_known) == (PutStatus.PUT_OK, True)


def test_a_table_that_cannot_be_written_keeps_no_sender_waiting() -> None:
    disk = SimulatedDisk()
    told: list[Outcome] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, disk, [])
        disk.fail("write", "config", errno.ENOSPC)
        state.topics.for_send("orders", "TBW102", 4, 0)
        state.turn.put(incoming(), told.append)
        await clock.sleep(1)
        assert len(told) == 1
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
        await state.persistence.save_all()
        state.store.close()

    async def second(clock: VirtualClock) -> tuple[bool, bool, int]:
        state = await opened(clock, disk, [])
        found = (
            "orders" in state.topics.table,
            "pullers" in state.groups,
            state.offsets.query("pullers", "orders", 2),
        )
        state.store.close()
        return found

    run_virtual(first)
    assert run_virtual(second) == (True, True, 17)


def test_a_deleted_topic_begins_anew() -> None:
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

        State(settings, machine, tell)

    run_virtual(main)
    assert made["store"] == STORE_WORKERS == 5


def test_what_was_admitted_before_its_topic_was_deleted_goes_with_it() -> None:
    told: list[Outcome] = []

    async def main(clock: VirtualClock) -> None:
        state = await opened(clock, SimulatedDisk(), [])
        state.turn.put(incoming(), told.append)
        state.delete_topic("orders")
        await clock.sleep(1)
        assert state.store.queues.queue("orders", 0) is None
        state.store.close()

    run_virtual(main)
    assert len(told) == 1
