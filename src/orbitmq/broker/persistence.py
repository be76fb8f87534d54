"""Saves tables to files: which changed, and when they are written.

::

    changed ── save_changed(), save() ──▶ writing, in a worker ── done ──▶ saved
       ▲                                     │
       └───────── failed: logged, retried ───┘

Laws:

- The text of a table is created on the event loop, from one state; a worker only writes the file.
- One worker at a time writes a file. What changes meanwhile is written afterwards.
- A table counts as saved in the version that its text was created from.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.errors import StoreError
from orbitmq.store.config_files import ConfigFiles
from orbitmq.threads import Workers

__all__ = ["Persistence"]

log = logging.getLogger("orbitmq.broker")


@dataclass(slots=True, eq=False, repr=False)
class _Table:
    """A registered table and the state of its file."""

    name: str
    to_json: Callable[[], str]
    load_json: Callable[[str], None]
    version: Callable[[], object]
    saved: object = None
    fails: bool = False
    writing: asyncio.Future[None] | None = None

    @property
    def is_changed(self) -> bool:
        return self.saved != self.version()


class Persistence:
    """Keeps tables in files of a store's ``config`` directory."""

    def __init__(self, files: ConfigFiles, workers: Workers) -> None:
        self._files = files
        self._workers = workers
        self._tables: dict[str, _Table] = {}

    def __repr__(self) -> str:
        changed = [table.name for table in self._tables.values() if table.is_changed]
        return f"<Persistence {self._files.directory}, changed {changed}>"

    def register(
        self,
        name: str,
        *,
        to_json: Callable[[], str],
        load_json: Callable[[str], None],
        version: Callable[[], object],
    ) -> None:
        """Register a table and its file, such as ``topics.json``.

        ``load_json`` raises ``OrbitError`` or ``ValueError`` if it can't load a text. ``version``
        returns a value that changes with each change, and is never None.
        """
        self._tables[name] = _Table(name, to_json, load_json, version)

    def load(self, *names: str) -> None:
        """Load tables from their files; without names, all that are not loaded yet.

        Nothing else may use the tables meanwhile. Raise StoreDamaged if neither a file nor the
        version before it can be used.
        """
        for table in self._tables.values():
            if (table.name in names if names else table.saved is None) and self._files.read(
                table.name, _read_whole(table)
            ):
                table.saved = table.version()

    def save_changed(self) -> None:
        """Start writing the tables that changed, unless they are being written.

        Call it on the event loop, every few seconds and after a change that should not wait.
        """
        for table in self._tables.values():
            if table.is_changed and table.writing is None:
                self._write(table)

    def is_changed(self, name: str) -> bool:
        """Return whether a table differs from its file."""
        return self._tables[name].is_changed

    async def save(self, name: str) -> None:
        """Return when the present version of a table is on disk.

        Raise StoreError if it could not be written; the next ``save_changed`` retries.
        """
        table = self._tables[name]
        if table.writing is not None:  # perhaps an older version
            await asyncio.wait([table.writing])
        if table.is_changed:
            # Shielded: a cancelled caller must not stop the write that others wait for.
            await asyncio.shield(table.writing or self._write(table))

    async def save_all(self) -> None:
        """Return when all tables are on disk, for a stop.

        Raise StoreError if one could not be written; the others were.
        """
        saves = (self.save(name) for name in self._tables)
        for outcome in await asyncio.gather(*saves, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _write(self, table: _Table) -> asyncio.Future[None]:
        version = table.version()
        work = self._workers.submit(self._files.write, table.name, table.to_json())
        table.writing = asyncio.wrap_future(work)
        table.writing.add_done_callback(lambda done: _written(table, version, done))
        return table.writing


def _read_whole(table: _Table) -> Callable[[str], bool]:
    def load(text: str) -> bool:
        table.load_json(text)
        return True

    return load


def _written(table: _Table, version: object, done: asyncio.Future[None]) -> None:
    table.writing = None
    if done.cancelled():
        return  # the workers closed before it began
    error = done.exception()
    if error is None:
        table.saved, table.fails = version, False
    elif not isinstance(error, StoreError):
        raise error
    elif not table.fails:  # once, not at every save until the disk has space
        table.fails = True
        log.error("%s could not be written, a later save retries: %s", table.name, error)
