"""All consume queues of a store: thousands of queues share a buffer and a few open files."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from orbitmq.errors import InvalidInput, InvalidTopic, StoreDamaged
from orbitmq.message import flags
from orbitmq.message.names import is_lmq
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.disk.open_files import MakeRoom, OpenFiles, Unsynced
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.queues.batch_queue import BatchQueue
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.files import QueueFiles
from orbitmq.store.queues.numbered_entries import NumberedEntries

__all__ = ["AnyQueue", "ConsumeQueues", "Ends", "HasBatchQueues"]

log = logging.getLogger("orbitmq.store")

_PAGE: Final = 4096
_WITHOUT_QUEUE: Final = flags.TRANSACTION_PREPARED  # ``Dispatched.in_queue``, without the call
_RETIRED: Final = ".deleted"
"""Suffix of the directory of a deleted queue; Java also ignores names that are not numbers."""
_ASIDE: Final = ".made"
"""Suffix of the directory for queue files that are not part of the store yet."""


Ends: TypeAlias = dict[str, dict[int, int]]
"""The end of each queue (the offset of its next entry), by topic and queue id."""


AnyQueue: TypeAlias = ConsumeQueue | BatchQueue

HasBatchQueues: TypeAlias = Callable[[str], bool | None]
"""Returns whether the queues of a topic are batch queues; None if the topic is unknown."""


class _Kind(NamedTuple):
    """Where the queues of one kind are."""

    queue: type[ConsumeQueue] | type[BatchQueue]
    directory: str
    per_file: int


class ConsumeQueues:
    """All consume queues of a store: ``<directory>/<topic>/<queue id>/<20 digits>``.

    Topics with batch queues have them below ``batch_directory``. ``entries_per_file`` and
    ``batches_per_file`` are what the store was created with; Java's default is 300,000. At most
    ``open_files_max`` files are open, however many queues there are. ``make_room`` closes other
    idle files when the process can't open more.

    >>> from tempfile import TemporaryDirectory
    >>> from orbitmq.store.disk.disk import RealDisk
    >>> with TemporaryDirectory() as directory:
    ...     queues = ConsumeQueues(RealDisk(), directory)
    ...     new = queues.append_all([Dispatched(topic="orders", queue_id=3, queue_offset=0,
    ...         commit_log_offset=640, size=200, tags_code=7, store_timestamp_ms=0, sys_flag=0,
    ...         unique_key=None, keys=b"", tags=None)])
    ...     queues.write()
    ...     len(new), queues.queue("orders", 3).entry(0)
    (1, QueueEntry(commit_log_offset=640, size=200, tags_code=7))
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        batch_directory: str = "",
        entries_per_file: int = 300_000,
        batches_per_file: int = 300_000,
        open_files_max: int = 512,
        make_room: MakeRoom = lambda: None,
    ) -> None:
        if entries_per_file < 1:
            raise InvalidInput(
                f"entries_per_file is {entries_per_file}; a file has at least 1",
                field="entries_per_file",
            )
        self._light: set[str] = set()
        self._directory = directory
        self._plain = _Kind(ConsumeQueue, directory, entries_per_file)
        self._batch = _Kind(BatchQueue, batch_directory, batches_per_file)
        self._kinds = (self._plain, self._batch) if batch_directory else (self._plain,)
        self._files = OpenFiles(disk, limit=open_files_max, make_room=make_room)
        self._topics: dict[str, dict[int, AnyQueue]] = {}
        self._backlog: deque[NumberedEntries] = deque()
        self.buffered = 0
        """The number of entries in memory only, or slightly more."""
        self.on_topic_deleted: Callable[[str], None] = lambda _topic: None
        """Called with a topic before all its queues are deleted."""
        self.topic_has_batches: HasBatchQueues = lambda _topic: None

    def __repr__(self) -> str:
        return f"<ConsumeQueues {self._directory}: {sum(map(len, self._topics.values()))} queues>"

    def __iter__(self) -> Iterator[AnyQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    # Queues.

    def queue(self, topic: str, queue_id: int) -> AnyQueue | None:
        """Return a queue; None if nothing was ever appended to it."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def consume_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue of a topic without batch queues, such as a system topic."""
        found = self.queue(topic, queue_id)
        return found if isinstance(found, ConsumeQueue) else None

    def has_batches(self, topic: str) -> bool:
        """Return whether the queues of a topic are batch queues.

        Those of an unknown topic, whose settings are lost, are what their directory says.
        """
        for queue in self._topics.get(topic, {}).values():
            return isinstance(queue, BatchQueue)
        return bool(self.topic_has_batches(topic))

    def is_queued(self, entry: Dispatched) -> bool:
        """Return whether a record has a queue entry.

        An inner batch has none if its topic has no batch queues: it was deleted, or created again
        with other queues, where each record takes one offset.
        """
        is_inner = entry.sys_flag & flags.INNER_BATCH
        return entry.in_queue and not (is_inner and not self.has_batches(entry.topic))

    def made(self, topic: str, queue_id: int) -> AnyQueue:
        """Return a queue; create it if it does not exist.

        Raise InvalidTopic if the topic can't be the name of a directory.
        """
        return self.queue(topic, queue_id) or self._create(topic, queue_id)

    @property
    def light_count(self) -> int:
        """How many light queues there are."""
        return len(self._light)

    def topics(self) -> list[str]:
        """Return the topics with queues, sorted."""
        return sorted(self._topics)

    def queues_of(self, topic: str) -> list[AnyQueue]:
        """Return the queues of a topic in the order of their ids."""
        return [queue for _, queue in sorted(self._topics.get(topic, {}).items())]

    def ends(self) -> Ends:
        """Return where each queue ends, buffered entries included."""
        return {
            topic: {queue_id: queue.max_offset for queue_id, queue in queues.items()}
            for topic, queues in self._topics.items()
        }

    # Writing.

    def append_all(self, entries: Iterable[Dispatched]) -> list[Dispatched]:
        """Buffer the queue entries of records; return the new ones, which consumers now see.

        The caller must call :meth:`write` soon. Records without a queue entry are skipped. So is an
        entry of a light queue after a gap: its offset comes from a property of the message, and a
        client must not be able to stop the store with it. If entries of an ordinary queue are
        missing, raise StoreDamaged; earlier entries were buffered.
        """
        topics, taken = self._topics, []
        for entry in entries:
            if entry.sys_flag & _WITHOUT_QUEUE:
                continue
            try:
                queue = topics[entry.topic][entry.queue_id]
            except KeyError:
                if not self.is_queued(entry):
                    continue
                queue = self._create(entry.topic, entry.queue_id)
            try:
                if queue.append(entry):
                    taken.append(entry)
            except StoreDamaged as error:
                if not is_lmq(entry.topic):
                    raise
                log.error("skipped an entry of a light queue: %s", error)
        self.buffered += len(taken)
        return taken

    def write(self, most: int | None = None) -> None:
        """Write buffered entries, one disk write per queue (two at the end of a file).

        ``most`` limits the number of queues, those that have waited longest first; None for all.
        After DiskFailed call again: unwritten entries are still buffered.
        """
        backlog = self._backlog
        for _ in range(len(backlog) if most is None else min(most, len(backlog))):
            self.buffered -= backlog[0].write()
            backlog.popleft()
        if not backlog:
            self.buffered = 0

    def take_unsynced(self, least_pages: int = 0) -> Unsynced:
        """Return the files to sync; ``Unsynced.sync`` may run on a worker.

        Files with fewer than ``least_pages`` unsynced pages of 4 KiB are left for later.
        """
        return self._files.take_unsynced(least_pages * _PAGE)

    def sync(self, least_pages: int = 0) -> None:
        """Sync all files with at least ``least_pages`` unsynced pages."""
        self._files.sync_all(least_pages * _PAGE)

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back files that could not be synced because no descriptor was free."""
        self._files.put_back(unsynced)

    def close(self) -> None:
        """Close the files; they are reopened on use."""
        self._files.close()

    # Start.

    def load(self) -> None:
        """Find all queues; anything but ``<topic>/<number>/`` is ignored.

        Leftovers of deleted queues are removed. Raise StoreDamaged if a file of a queue has another
        length or name.
        """
        for kind in self._kinds:
            self._load(kind)

    def _load(self, kind: _Kind) -> None:
        disk = self._files.disk
        for topic in disk.list(kind.directory):
            folder = f"{kind.directory}/{topic}"
            if not disk.is_directory(folder):
                continue
            self._remove_retired(folder)
            for name in disk.list(folder):
                is_number = name.isascii() and name.isdecimal() and str(int(name)) == name
                if is_number and disk.is_directory(f"{folder}/{name}"):
                    self._check_kind(topic, kind)
                    self._add(topic, int(name), kind).load()

    def _check_kind(self, topic: str, kind: _Kind) -> None:
        """Check that a topic has queues of one kind, the one that its settings say."""
        known = self.topic_has_batches(topic)
        others = {kind.queue, *map(type, self._topics.get(topic, {}).values())}
        if len(others) > 1 or known not in (None, kind is self._batch):
            path = f"{kind.directory}/{topic}"
            right = "BatchCQ" if known else "SimpleCQ"
            raise StoreDamaged(
                f"{path} has queues of another kind than the topic, whose queue.type is {right}; "
                "move the directory away, and the start rebuilds the queues from the log",
                path=path,
                position=0,
            )

    def recover(self) -> int:
        """Find where each queue ends; return the highest record end of all queues, -1 if none.

        Call :meth:`load` before; afterwards :meth:`truncate` with the end of the commit log and
        :meth:`correct_min_offsets` with its start.
        """
        for queue in self:
            queue.recover()
        return max((queue.record_end for queue in self), default=-1)

    def truncate(self, commit_log_end: int) -> None:
        """Drop the entries of records that begin at or after the end of the commit log."""
        for queue in self:
            queue.truncate(commit_log_end)

    def place_before(self, commit_log_end: int) -> int:
        """Return where the last record before an offset of the log begins; -1 if none is known.

        Records without a queue, such as half messages, may lie between.
        """
        return max((queue.place_before(commit_log_end) for queue in self), default=-1)

    def delete_unbegun(self) -> None:
        """Delete the queues that have no entry and never had one, as after a cut of the log."""
        for topic in self.topics():
            unbegun = [one.queue_id for one in self.queues_of(topic) if not one.end_number]
            if unbegun:
                self.delete(topic, unbegun)

    def aside(self) -> "ConsumeQueues":
        """Return an empty set of queues in directories beside these.

        Missing files of a queue are built there before they are moved in. Leftovers of an
        interrupted start are removed.
        """
        aside = ConsumeQueues(
            self._files.disk,
            self._directory + _ASIDE,
            batch_directory=self._batch.directory and self._batch.directory + _ASIDE,
            entries_per_file=self._plain.per_file,
            batches_per_file=self._batch.per_file,
        )
        aside.topic_has_batches = self.has_batches
        aside.remove()
        return aside

    def remove(self) -> None:
        """Close the files and remove the whole directories."""
        self.close()
        for kind in self._kinds:
            remove_tree(self._files.disk, kind.directory)

    def correct_min_offsets(self, commit_log_start: int) -> None:
        """Set each queue's ``min_offset`` to its first entry whose record is in the log."""
        for queue in self:
            queue.correct_min_offset(commit_log_start)

    # Removal.

    def delete_topic(self, topic: str) -> None:
        """Delete all queues of a topic."""
        self.on_topic_deleted(topic)
        self.delete(topic, list(self._topics.get(topic, ())))

    def delete(self, topic: str, queue_ids: Collection[int]) -> None:
        """Delete existing queues, and the directory of the topic if it becomes empty.

        A queue is deleted in one step, by renaming its directory: a power loss brings back all of
        it or nothing. A queue that came back without its last file would lack entries for good.
        """
        queues = self._topics.get(topic, {})
        folder = f"{self._kind_of(topic).directory}/{topic}"
        for queue_id in queue_ids:
            self._retire(f"{folder}/{queue_id}")
            queues.pop(queue_id).discard()
        if self._files.disk.exists(folder):
            self._files.disk.sync_directory(folder)
            self._remove_retired(folder)
        if not queues:
            self._topics.pop(topic, None)
            self._light.discard(topic)

    def _retire(self, directory: str) -> None:
        disk, retired = self._files.disk, directory + _RETIRED
        if disk.exists(directory):
            remove_tree(disk, retired)  # left by a deletion that failed
            disk.rename(directory, retired)

    def _remove_retired(self, folder: str) -> None:
        """Remove the files of deleted queues, and the directory of the topic if it is empty."""
        disk = self._files.disk
        for name in disk.list(folder):
            if name.endswith(_RETIRED):
                remove_tree(disk, f"{folder}/{name}")
        if not disk.list(folder):
            disk.remove_directory(folder)

    def _create(self, topic: str, queue_id: int) -> AnyQueue:
        if not topic or topic in (".", "..") or "/" in topic or "\x00" in topic or queue_id < 0:
            raise InvalidTopic(
                f"queue {queue_id} of a topic of {len(topic)} characters can't have a directory: "
                "the topic is empty, . or .., contains / or NUL, or the queue id is negative",
                field="topic",
                length=len(topic),
            )
        return self._add(topic, queue_id, self._kind_of(topic))

    def _kind_of(self, topic: str) -> _Kind:
        return self._batch if self.has_batches(topic) else self._plain

    def _add(self, topic: str, queue_id: int, kind: _Kind) -> AnyQueue:
        path = f"{kind.directory}/{topic}/{queue_id}"
        queue = kind.queue(
            topic,
            queue_id,
            QueueFiles(self._files, path, kind.per_file * kind.queue.entry_size),
            entries_per_file=kind.per_file,
            backlog=self._backlog,
        )
        self._topics.setdefault(topic, {})[queue_id] = queue
        if is_lmq(topic):
            self._light.add(topic)
        return queue
