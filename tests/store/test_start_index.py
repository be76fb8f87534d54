"""Starts that make the index again, all of it or from a missing file on."""

from contextlib import suppress
from functools import cache

import pytest

from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.recovery.test_start import SEEDS, SEGMENT, bytes_read, tick_until_checkpointed
from tests.store.stores import HandClock, flush, opened

KEYED = 120


def paged(disk: SimulatedDisk, clock: HandClock) -> MessageStore:
    """Return an open store with several pages to a file of the index, of which some may be lost."""
    return opened(disk, clock=clock, segment_bytes=65_536, index_slots=100, index_entries=250)


def without_index(disk: SimulatedDisk, clock: HandClock) -> None:
    """Make a store of messages with eight keys each, stop it in order, and remove its index."""
    store = paged(disk, clock)
    for number in range(KEYED):
        clock.now += 1_000
        keys = b" ".join(b"k%d-%d" % (number, one) for one in range(8))
        store.append([incoming(b"%d" % number, properties=b"KEYS\x01%b\x02" % keys)])
        if number % 10 == 0:
            store.tick()
    store.close()
    assert len(disk.list("/store/index")) == 4
    remove_tree(disk, "/store/index")


def keys_found(disk: SimulatedDisk, clock: HandClock) -> int:
    """Start a store and stop it; return how many of its messages are found by a key."""
    store = paged(disk, clock)
    keys = [f"k{number}-{number % 8}" for number in range(KEYED)]
    found = sum(bool(store.index.query("orders", key, 8, 0, clock.now)) for key in keys)
    store.close()
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_index_made_again_survives_a_loss_of_power_soon_after(seed: int) -> None:
    disk, clock = SimulatedDisk(SeededRandomness(seed)), HandClock()
    without_index(disk, clock)
    store = paged(disk, clock)
    clock.now += 1_000
    store.tick()
    disk.crash()
    assert keys_found(disk, clock) == KEYED


@cache
def calls_of_a_start() -> int:
    """Return how often a start that makes the index again asks the disk for something."""
    disk, clock = SimulatedDisk(), HandClock()
    without_index(disk, clock)
    before = len(disk.log)
    paged(disk, clock)
    return len(disk.log) - before


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_loss_of_power_while_the_index_is_made_again_costs_no_key(seed: int) -> None:
    """The checkpoint of the stop vouches for full files only."""
    chance = SeededRandomness(seed)
    disk, clock = SimulatedDisk(chance), HandClock()
    without_index(disk, clock)
    half = calls_of_a_start() // 2
    disk.cut_power(after=half + chance.below(half))
    with suppress(PowerLost):
        paged(disk, clock)
    disk.crash()
    assert keys_found(disk, clock) == KEYED


def test_an_index_made_again_is_vouched_for_at_once() -> None:
    """The next start, even after a crash, does not rebuild it again."""
    disk, clock = SimulatedDisk(), HandClock()
    without_index(disk, clock)
    store = paged(disk, clock)
    made = disk.list("/store/index")
    clock.now += 1_000
    store.tick()
    disk.crash()
    clock.now += 1_000
    paged(disk, clock)
    assert disk.list("/store/index") == made


def remove_index_file(disk: SimulatedDisk, number: int) -> None:
    names = disk.list("/store/index")
    assert len(names) > 3
    disk.remove(f"/store/index/{names[number]}")


def found_numbers(store: MessageStore, count: int) -> list[int]:
    """Return the numbers of the messages that both their keys lead to."""
    return [
        number
        for number in range(count)
        if all(store.index.query("orders", f"{one}{number}", 8, 0, NOW * 2) for one in "ku")
    ]


def two_keys(number: int) -> Incoming:
    text = b"KEYS\x01k%d\x02UNIQ_KEY\x01u%d\x02" % (number, number)
    return incoming(b"%d" % number * 20, properties=text)


@pytest.mark.parametrize("end", ["stop", "crash"])
@pytest.mark.parametrize("missing", [0, 1, -2])
def test_an_index_with_a_missing_file_is_made_again_from_there_on(
    missing: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of a record whose keys were in two files, one of which is there."""
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock)
    for number in range(120):
        clock.now += 1_000
        store.append([two_keys(number)])
    if end == "stop":
        store.close()
    else:
        tick_until_checkpointed(store, clock)
        disk.crash()
    kept = disk.list("/store/index")[: missing % 5]
    remove_index_file(disk, missing)
    store = opened(disk, clock=clock)
    assert found_numbers(store, 120) == [*range(120)]
    assert sum("no file before it has the keys" in one for one in caplog.messages) == 1
    assert disk.list("/store/index")[: len(kept)] == kept
    store.close()
    caplog.clear()
    opened(disk, clock=clock).close()
    assert caplog.messages == []


def test_a_missing_last_file_of_the_index_costs_no_key_of_a_record_that_was_in_two() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock)
    for number in range(25):  # the first file has room for 49 keys
        store.append([two_keys(number)])
    store.close()
    first, last = disk.list("/store/index")
    disk.remove(f"/store/index/{last}")
    store = opened(disk, clock=clock)
    assert disk.list("/store/index")[0] == first
    assert found_numbers(store, 25) == [*range(25)]
    store.close()


@pytest.mark.parametrize("old", range(40, 80, 5))
def test_an_index_is_whole_without_the_files_that_went_with_the_log(
    old: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=1, index_entries=20)
    for number in range(120):
        clock.now += 7_200_000 if number == old else 1_000
        # Keys in the middle of each file: those of the index end and begin somewhere between.
        is_keyed = SEGMENT // 4 < store.log.end % SEGMENT < SEGMENT * 3 // 4
        store.append([two_keys(number) if is_keyed else incoming(bytes(90), properties=b"")])
    flush(store)
    before = disk.list("/store/index")
    assert store.clean(asked=True)
    store.close()
    made = disk.list("/store/index")
    assert 1 < len(made) < len(before)
    caplog.clear()
    assert bytes_read(disk, index_entries=20) <= 2 * SEGMENT
    assert disk.list("/store/index") == made
    assert caplog.messages == []
