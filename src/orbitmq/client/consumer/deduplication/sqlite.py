"""States of messages in a SQLite file, shared by the processes of one machine.

::

    seen(key TEXT PRIMARY KEY, owner TEXT, until_ms INTEGER)

    no row, or until_ms has passed    unknown
    owner is not NULL                 claimed by that owner, until then
    owner is NULL                     done, remembered until then

The file is in WAL mode and is not synced with each change. A crash of the process loses nothing; a
power loss may lose the last changes, and then those messages are unknown.
"""

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.clock import Clock
from orbitmq.errors import DiskFailed, NotRunning, StoreDamaged
from orbitmq.net.fork import check_process, process_token
from orbitmq.threads import Lock

__all__ = ["SqliteClaims"]

_BUSY_S: Final = 10.0
"""How long a call waits for the changes of other processes, each of which takes microseconds."""
_COUNTS_PER_BOUND: Final = 100
"""Counting reads the whole table, so the bound may be exceeded by one part in this many."""
_DROPPED_AT_ONCE: Final = 256

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY, owner TEXT, until_ms INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS seen_until ON seen (owner, until_ms);
"""
_CLAIM: Final = """
INSERT INTO seen (key, owner, until_ms) VALUES (:key, :owner, :until_ms)
    ON CONFLICT (key) DO UPDATE SET owner = :owner, until_ms = :until_ms
    WHERE until_ms <= :now_ms
"""
_FINISH: Final = """
INSERT INTO seen (key, owner, until_ms) VALUES (:key, NULL, :until_ms)
    ON CONFLICT (key) DO UPDATE SET owner = NULL, until_ms = :until_ms
"""
_OLDEST: Final = """
DELETE FROM seen WHERE key IN
    (SELECT key FROM seen WHERE owner IS NULL AND until_ms <= ? ORDER BY until_ms LIMIT ?)
"""
_ENDED_CLAIMS: Final = "DELETE FROM seen WHERE owner IS NOT NULL AND until_ms <= ?"
_FOREVER_MS: Final = 2**63 - 1


class SqliteClaims:
    """One connection to the file, which is created if missing; its directory must exist.

    Args:
        owner: a name that no other user of the file has.
    """

    is_shared = True

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        owner: str,
        window_ms: int,
        lease_ms: int,
        entries_max: int,
    ) -> None:
        self._path = path
        self._clock = clock
        self._owner = owner
        self._window_ms = window_ms
        self._lease_ms = lease_ms
        self._entries_max = entries_max
        self._process = process_token()
        self._guard = Lock()
        self._finished = entries_max  # since the last count; processes may end before their first
        self._is_closed = False
        with self._as_store_error():
            self._file = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute("PRAGMA synchronous = NORMAL")
                self._file.executescript(_TABLE)
            except BaseException:
                self._file.close()
                raise

    def __repr__(self) -> str:
        return f"<SqliteClaims {self._path}>"

    def claim(self, keys: Sequence[str]) -> list[Found]:
        """Claim the unknown ones; return what was found, in the order of the keys."""
        now_ms = self._clock.now_ms()
        with self._change() as file:
            return [self._claim(file, key, now_ms) for key in keys]

    def _claim(self, file: sqlite3.Connection, key: str, now_ms: int) -> Found:
        wanted = {"key": key, "owner": self._owner, "now_ms": now_ms}
        if file.execute(_CLAIM, {**wanted, "until_ms": now_ms + self._lease_ms}).rowcount:
            return Found.NEW
        (owner,) = file.execute("SELECT owner FROM seen WHERE key = ?", (key,)).fetchone()
        return Found.DONE if owner is None else Found.CLAIMED

    def finish(self, keys: Sequence[str]) -> None:
        """Make them done, claimed or not."""
        now_ms = self._clock.now_ms()
        until_ms = now_ms + self._window_ms
        with self._change() as file:
            file.executemany(_FINISH, [{"key": key, "until_ms": until_ms} for key in keys])
            # More than are added, so that the file doesn't grow while rows end.
            file.execute(_OLDEST, (now_ms, _DROPPED_AT_ONCE + 2 * len(keys)))
            self._finished += len(keys)
            if self._finished * _COUNTS_PER_BOUND >= self._entries_max:
                self._finished = 0
                file.execute(_ENDED_CLAIMS, (now_ms,))
                (count,) = file.execute("SELECT count(*) FROM seen WHERE owner IS NULL").fetchone()
                if count > self._entries_max:
                    file.execute(_OLDEST, (_FOREVER_MS, count - self._entries_max))

    def release(self, keys: Sequence[str]) -> None:
        """Make those that we claimed unknown."""
        with self._change() as file:
            file.executemany(
                "DELETE FROM seen WHERE key = ? AND owner = ?", [(key, self._owner) for key in keys]
            )

    def renew(self, keys: Sequence[str]) -> None:
        """Begin the leases of our claims again."""
        until_ms = self._clock.now_ms() + self._lease_ms
        with self._change() as file:
            file.executemany(
                "UPDATE seen SET until_ms = ? WHERE key = ? AND owner = ?",
                [(until_ms, key, self._owner) for key in keys],
            )

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        check_process(self._process, self)
        with self._guard:
            self._is_closed = True
            self._file.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction, which has the file for itself from its first statement on."""
        check_process(self._process, self)  # SQLite's files must not be used across a fork
        with self._guard, self._as_store_error():
            if self._is_closed:
                raise NotRunning(f"the deduplicator of {self._path} is closed", state="closed")
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield self._file
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise

    @contextmanager
    def _as_store_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # a full disk, no such directory, locked
            raise DiskFailed(f"{self._path}: {error}", path=self._path, errno=errno.EIO) from error
        except sqlite3.DatabaseError as error:  # not a database, or damaged
            raise StoreDamaged(
                f"{self._path}: {error}; give another file", path=self._path
            ) from error
