"""Stores written by the real Java broker; ``tests/golden/store/`` holds them."""

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings, delay_levels
from orbitmq.testing.clocks import InlineWorkers
from tests.golden_files import GOLDEN

REDERIVED = ("normal", "delay", "trans", "batch", "timer", "retry", "crash", "edge", "cqext")
"""The stores whose queues and indexes follow from their logs alone."""


class GoldenStore:
    """A store directory, unpacked, and what its manifest says. Treat both as read-only."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.manifest: dict[str, Any] = manifest(name)
        config = self.manifest["config"]
        self.segment_bytes: int = config["mappedFileSizeCommitLog"]
        self.queue_file_bytes: int = config["mappedFileSizeConsumeQueue"]
        self.index_slots: int = config["maxHashSlotNum"]
        self.index_entries: int = config["maxIndexNum"]

    def records(self) -> Iterator[RecordView]:
        """Yield every record of the commit log."""
        for path in sorted((self.root / "commitlog").iterdir()):
            yield from Scan(path.read_bytes())

    def dispatched(self) -> Iterator[Dispatched]:
        """Yield what the records mean to queues and keys, in the order of the log."""
        dispatcher = Dispatcher(delay_levels(StoreSettings().message_delay_level))
        for view in self.records():
            yield from dispatcher.entries(view)


@cache
def manifest(name: str) -> dict[str, Any]:
    """Return the manifest of a store."""
    text = (GOLDEN / "store" / f"{name}.manifest.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def unpack(name: str, directory: Path) -> GoldenStore:
    """Unpack a store into an empty directory; the timer wheel, 38 MB of nothing, stays away."""
    with tarfile.open(GOLDEN / "store" / f"{name}.tar.gz") as archive:
        members = [member for member in archive if "timerwheel" not in member.name]
        archive.extractall(directory, members, filter="data")
    return GoldenStore(name, directory)


def opened(golden: GoldenStore) -> MessageStore:
    """Return our store on an unpacked one; the caller closes it."""
    settings = StoreSettings(
        segment_bytes=golden.segment_bytes,
        queue_file_entries=golden.queue_file_bytes // 20,
        index_slots=golden.index_slots,
        index_entries=golden.index_entries,
        append_crc=golden.name == "edge",
    )
    store = MessageStore(str(golden.root), settings, workers=InlineWorkers())
    store.open()
    return store


def contents(directory: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a directory, by their paths in it."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
