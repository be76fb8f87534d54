"""The queues and the key index of a store directory, made as its settings say."""

from orbitmq.clock import Clock, local_stamp
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import MakeRoom
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, path_join
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.settings import StoreSettings

__all__ = ["new_index", "new_queues"]


def new_queues(
    disk: Disk, directory: str, settings: StoreSettings, make_room: MakeRoom
) -> ConsumeQueues:
    """Return the consume queues of a store directory; ``load`` them."""
    return ConsumeQueues(
        disk,
        path_join(directory, CONSUME_QUEUE),
        batch_directory=path_join(directory, BATCH_CONSUME_QUEUE),
        entries_per_file=settings.queue_file_entries,
        batches_per_file=settings.batch_queue_file_entries,
        open_files_max=disk.files_at_once(),
        make_room=make_room,
    )


def new_index(
    disk: Disk, directory: str, settings: StoreSettings, clock: Clock, make_room: MakeRoom
) -> KeyIndex:
    """Return the key index of a store directory; ``load`` it. A new file is named by the clock."""
    return KeyIndex(
        disk,
        path_join(directory, "index"),
        slots=settings.index_slots,
        entries=settings.index_entries,
        file_name=lambda: local_stamp(clock.now_ms()),
        make_room=make_room,
    )
