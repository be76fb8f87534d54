"""The ledger of transactional writes: what was sent, what is decided, what is delivered.

::

    LEDGER/                              a folder, one for each query or job
      query-<id>-<batch>/                a write: a batch of a stream …
      write-<id>/                        … or a batch write
        <partition>-<random>.halves      the half messages of one attempt of a task (half_list.py)
        <partition>-<random>.aborted     this attempt was given up, before a decision
        DECISION                         {"state": "committing", "files": […], …}, or "aborted"
        PROGRESS                         {"files": 2, "halves": 1000}: two files are delivered, and
                                         the first 1000 halves of the third
        COMMITTED                        all of DECISION is delivered; the lists are deleted

An attempt of a task goes through these states, and the rows of an attempt with it::

    OPEN ──┬─ DECISION names its file ───────────────▶ COMMITTING ── COMMITTED ──▶ COMMITTED
           └─ DECISION names others, is ABORTED,
              or the attempt has its mark ───────────▶ ABORTED

Laws:

- DECISION is created once, and never changes or goes before its write is forgotten. A commit and an
  abort at the same time create the same file: one of them wins, and both see which.
- No half is committed before DECISION names its file. From then on all of them will be, by whoever
  comes: the driver, the driver after a restart, ``settle``, or an answer to a broker's check.
- A write with a DECISION takes no more attempts: a replayed batch sends nothing.
- PROGRESS is never ahead of what brokers have answered. Behind it by at most one window.
- A commit that would come after an attempt's time is refused, before DECISION.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from orbitmq.errors import CommitTooLate, LedgerDamaged
from orbitmq.spark.writing.half_list import (
    HEAD_BYTES_MAX,
    Half,
    HalfListHead,
    read_halves,
    read_head,
)
from orbitmq.spark.writing.ledger_files import LedgerFiles

__all__ = [
    "Decision",
    "Ledger",
    "LedgerWrite",
    "Progress",
    "State",
    "attempt_file",
    "batch_write_name",
    "stream_write_name",
]

_T = TypeVar("_T")

_HALVES: Final = ".halves"
_ABORTED: Final = ".aborted"
_DECISION: Final = "DECISION"
_PROGRESS: Final = "PROGRESS"
_COMMITTED: Final = "COMMITTED"
_BATCH_WRITE: Final = "write-"
_STREAMED: Final = re.compile(r"(query-.+)-([0-9]+)")
_KEPT_MORE_MS: Final = 3_600_000
"""How long a write is remembered after its halves have run out of time: brokers ask about a half
for about ten minutes, and an orphaned task may still end."""
_LAST_KEPT: Final = 2
"""Batches of a query that are never forgotten: Spark replays the last one, however late."""


class State(enum.Enum):
    """The state of one attempt of a task."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Decision(msgspec.Struct, frozen=True):
    """What becomes of a write; ``files`` are the attempts that are committed."""

    state: State
    files: tuple[str, ...]
    at_ms: int
    keep_until_ms: int


class Progress(msgspec.Struct, frozen=True, order=True):
    """How far a write is delivered: whole files, and halves of the next one."""

    files: int = 0
    halves: int = 0


def stream_write_name(query: str, batch: int | str) -> str:
    """Return the name of the write of a streaming batch.

    >>> stream_write_name("3f1c", 12)
    'query-3f1c-12'
    """
    return f"query-{query}-{batch}"


def attempt_file(partition: int, token: object) -> str:
    """Return the name of a file of an attempt; the token is random.

    >>> attempt_file(3, "9d1c")
    '00003-9d1c.halves'
    """
    return f"{partition:05d}-{token}{_HALVES}"


def batch_write_name(write_id: object) -> str:
    """Return the name of a batch write."""
    return f"{_BATCH_WRITE}{write_id}"


class Ledger:
    """All writes of one ledger."""

    def __init__(self, files: LedgerFiles) -> None:
        self.files = files

    def __repr__(self) -> str:
        return f"<Ledger {self.files.location}>"

    def write(self, name: str) -> "LedgerWrite":
        """Return a write, which may not have begun."""
        return LedgerWrite(self.files, name)

    def writes(self) -> list["LedgerWrite"]:
        """Return all writes that have begun and are not forgotten."""
        return [
            self.write(name)
            for name in self.files.names()
            if name.startswith(_BATCH_WRITE) or _STREAMED.fullmatch(name)
        ]

    def forget(self, now_ms: int) -> int:
        """Delete the writes that nobody will ask about any more; return how many."""
        forgotten = 0
        for write in _forgettable(self.writes()):
            decision = write.decision()
            if decision is None or decision.keep_until_ms > now_ms:
                continue
            if decision.state is State.ABORTED or write.is_committed():
                self.files.delete_folder(write.name)
                forgotten += 1
        return forgotten


def _forgettable(writes: Sequence["LedgerWrite"]) -> Iterator["LedgerWrite"]:
    """Yield all but the last batches of each query."""
    batches: dict[str, list[int]] = {}
    for write in writes:
        if found := _STREAMED.fullmatch(write.name):
            batches.setdefault(found[1], []).append(int(found[2]))
    last = {
        f"{query}-{batch}"
        for query, numbers in batches.items()
        for batch in sorted(numbers)[-_LAST_KEPT:]
    }
    return (write for write in writes if write.name not in last)


class LedgerWrite:
    """One write of a ledger. Its methods read the files each time: other processes change them."""

    def __init__(self, files: LedgerFiles, name: str) -> None:
        self.files = files
        self.name = name

    def __repr__(self) -> str:
        return f"<LedgerWrite {self.name} in {self.files.location}>"

    @property
    def is_batch_write(self) -> bool:
        """Whether it is no batch of a stream, which Spark would repeat."""
        return self.name.startswith(_BATCH_WRITE)

    # What is known

    def attempts(self) -> list[str]:
        """Return the files of the attempts whose halves are listed."""
        return [name for name in self.files.names(self.name) if name.endswith(_HALVES)]

    def head(self, file: str) -> HalfListHead | None:
        """Return the head of an attempt's file; None if it is not there, or just begun."""
        path = self.path(file)
        data = self.files.read_head(path, HEAD_BYTES_MAX)
        return read_head(data, path) if data else None

    def halves(self, file: str, *, partly: bool = False) -> Iterator[Half]:
        """Yield the halves of an attempt; raise LedgerDamaged as ``read_halves`` does."""
        path = self.path(file)
        return read_halves(self.files.lines(path), path, partly=partly)

    def decision(self) -> Decision | None:
        """Return the decision; None if there is none yet."""
        data = self.files.read(self.path(_DECISION))
        return None if data is None else self._decoded(data, _DECISION, Decision)

    def progress(self) -> Progress:
        """Return how far the write is delivered."""
        data = self.files.read(self.path(_PROGRESS))
        return Progress() if data is None else self._decoded(data, _PROGRESS, Progress)

    def is_committed(self) -> bool:
        """Return whether all of it is delivered."""
        return self.files.read(self.path(_COMMITTED)) is not None

    def state_of(self, file: str) -> State:
        """Return the state of an attempt."""
        decision = self.decision()
        if decision is None:
            mark = self.files.read(self.path(_mark_of(file)))
            return State.OPEN if mark is None else State.ABORTED
        if file not in decision.files:
            return State.ABORTED
        return State.COMMITTED if self.is_committed() else State.COMMITTING

    # What happens

    def decide(self, files: Sequence[str], now_ms: int) -> Decision:
        """Decide that these attempts are committed; return the decision that stands.

        It may be an earlier one. Raise CommitTooLate if there is none, and brokers have begun to
        ask about one of the attempts, or it was given up.
        """
        standing = self.decision()
        if standing is not None:
            return standing
        keep_until_ms = now_ms
        for file in files:
            head = self.head(file)
            if head is None:
                raise LedgerDamaged(
                    f"the ledger {self.files.location} lacks {self.path(file)}, which a task has "
                    "written; the driver and all executors must reach the same ledgerLocation",
                    path=self.path(file),
                )
            if now_ms >= head.expires_ms:
                raise CommitTooLate(
                    self.name,
                    f"began {(now_ms - head.began_ms) // 1000} s ago, and its transactionTimeout "
                    f"is {head.timeout_ms // 1000} s",
                )
            if self.state_of(file) is State.ABORTED:
                raise CommitTooLate(self.name, f"was given up: {file} is aborted in the ledger")
            keep_until_ms = max(keep_until_ms, head.expires_ms + _KEPT_MORE_MS)
        return self._create(Decision(State.COMMITTING, tuple(files), now_ms, keep_until_ms))

    def abort(self, now_ms: int) -> Decision:
        """Decide that nothing is committed, unless that is decided; return what stands."""
        heads = [self.head(file) for file in self.attempts()]
        last_ms = max((head.expires_ms for head in heads if head is not None), default=now_ms)
        return self._create(
            Decision(State.ABORTED, (), now_ms, max(last_ms, now_ms) + _KEPT_MORE_MS)
        )

    def give_up(self, file: str) -> bool:
        """Mark an attempt as aborted; return False if there is a decision on the write."""
        if self.decision() is not None:
            return False
        self.files.create(self.path(_mark_of(file)), b"{}\n")
        return True

    def note_progress(self, progress: Progress) -> None:
        """Note what brokers have answered."""
        self.files.replace(self.path(_PROGRESS), msgspec.json.encode(progress))

    def complete(self) -> None:
        """Note that all of the decision is delivered."""
        self.files.create(self.path(_COMMITTED), b"{}\n")

    def drop_lists(self) -> None:
        """Delete what a write that has ended needs no more, after its halves were ended."""
        for name in self.files.names(self.name):
            if name not in (_DECISION, _COMMITTED):
                self.files.delete(self.path(name))

    def path(self, file: str) -> str:
        """Return the name of one of its files in the ledger."""
        return f"{self.name}/{file}"

    def _create(self, decision: Decision) -> Decision:
        data = self.files.create(self.path(_DECISION), msgspec.json.encode(decision))
        return self._decoded(data, _DECISION, Decision)

    def _decoded(self, data: bytes, name: str, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise LedgerDamaged(
                f"{self.path(name)} of the ledger {self.files.location} can't be read: {error}",
                path=self.path(name),
            ) from error


def _mark_of(file: str) -> str:
    return file.removesuffix(_HALVES) + _ABORTED
