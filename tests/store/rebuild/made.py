"""Queues and index of a store, made from its log in this process."""

from pathlib import Path

from orbitmq.store.damage import Damage
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.rebuild.index_files import MadeIndexFile, index_plan, make_index_file
from orbitmq.store.rebuild.log_parts import KeyPart, LogFile, QueuePart, keys_of, log_files, parts
from orbitmq.store.rebuild.queue_files import MadeQueue, make_queues, topics_with_batches
from orbitmq.store.rebuild.target import was_java_s
from orbitmq.store.settings import StoreSettings
from tests.store.golden import GoldenStore, contents


class Made:
    """What was made of a log, below a directory."""

    def __init__(self, reader: StoreReader, settings: StoreSettings, into: Path) -> None:
        self.files: list[LogFile] = []
        self.damages: list[Damage] = []
        self._reader, self._settings, self._into = reader, settings, str(into)
        self._queue_parts: dict[tuple[str, int], list[QueuePart]] = {}
        self._key_parts: list[tuple[int, KeyPart]] = []
        for base in log_files(reader):
            for part in parts(reader, base, settings):
                match part:
                    case QueuePart():
                        name = part.topic, part.queue_id
                        self._queue_parts.setdefault(name, []).append(part)
                    case KeyPart():
                        self._key_parts.append((base, part))
                    case LogFile():
                        self.files.append(part)
        self.damages += [one for file in self.files for one in file.damages if not one.harmless]

    def queues(self) -> list[MadeQueue]:
        seen = {topic for file in self.files for topic in file.batch_topics}
        batched = topics_with_batches(self._reader.disk, self._reader.directory, seen)
        ordered = [part for found in self._queue_parts.values() for part in found]
        made = make_queues(
            *(self._reader.disk, self._into, ordered, self._settings),
            has_batches=batched.__contains__,
            damages=self.damages,
        )
        return list(made)

    def index(self) -> list[MadeIndexFile]:
        plan = index_plan(self.files, self._settings)
        end = max((file.end for file in self.files if file.records), default=0)
        reach = None if was_java_s(self._reader) else end - 1
        found: list[list[tuple[int, bytes]]] = [[] for _ in range(plan.files)]
        for base, part in self._key_parts:
            for number in plan.numbers(base, part.first, part.keys):
                found[number].append((plan.before[base] + part.first, part.data))
        return [
            make_index_file(
                *(self._reader.disk, f"{self._into}/index", plan, number),
                ((first, keys_of(data)) for first, data in given),
                reach=reach if number == plan.files - 1 else None,
            )
            for number, given in enumerate(found)
        ]


def settings_of(golden: GoldenStore) -> StoreSettings:
    """Return the settings that Java's broker had."""
    return StoreSettings(
        segment_bytes=golden.segment_bytes,
        queue_file_entries=golden.queue_file_bytes // 20,
        index_slots=golden.index_slots,
        index_entries=golden.index_entries,
        append_crc=golden.name == "edge",
    )


def bytes_of(directory: Path) -> list[bytes]:
    """Return the bytes of index files in the order of their names, which are times."""
    return list(contents(directory).values())
