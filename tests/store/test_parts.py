"""The parts of a store directory are made where Java's broker makes them, in the sizes wanted."""

from orbitmq.clock import local_stamp
from orbitmq.store.parts import new_index, new_queues
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import keyed
from tests.store.logs import NOW
from tests.store.stores import SMALL, HandClock

SETTINGS = StoreSettings(**SMALL)  # type: ignore[arg-type]


def test_queues_and_index_have_the_sizes_of_the_settings_and_the_places_of_java() -> None:
    disk = SimulatedDisk()
    queues = new_queues(disk, "/store", SETTINGS, lambda: None)
    queues.load()
    entry = keyed(0, "a key")
    queues.append_all([entry])
    queues.write()
    (queue,) = disk.list(f"/store/consumequeue/{entry.topic}")
    (name,) = disk.list(f"/store/consumequeue/{entry.topic}/{queue}")
    size = disk.open(f"/store/consumequeue/{entry.topic}/{queue}/{name}", writable=False).size
    assert size == SETTINGS.queue_file_entries * 20
    index = new_index(disk, "/store", SETTINGS, HandClock(), lambda: None)
    index.put(entry)
    assert disk.list("/store/index") == [local_stamp(NOW)]
