"""Writes the checkpoint of a store while it is used: on a worker, one write at a time.

All methods are called by the owner of the store.
"""

import logging
from collections.abc import Callable

from orbitmq.errors import StoreError
from orbitmq.store.checkpoint.checkpoint import Checkpoint, CheckpointValues
from orbitmq.store.checkpoint.queue_sync import WhenDone
from orbitmq.store.disk.disk import Disk
from orbitmq.threads import Future, Workers

__all__ = ["CheckpointWriter"]

log = logging.getLogger("orbitmq.store")


class CheckpointWriter:
    """The checkpoint file of a store; ``next_values`` returns what is known to be on disk.

    ``open`` it before use, when the directory is locked.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        next_values: Callable[[], CheckpointValues],
        workers: Workers,
        when_done: WhenDone,
    ) -> None:
        self._disk = disk
        self._path = path
        self._next_values = next_values
        self._workers = workers
        self._when_done = when_done
        self._file: Checkpoint | None = None
        self._writing: Future[None] | None = None
        self._fails = False

    def __repr__(self) -> str:
        return f"<CheckpointWriter {self._path}>"

    def open(self) -> None:
        """Open the file; a missing one is created."""
        self._file = Checkpoint(self._disk, self._path)

    @property
    def values(self) -> CheckpointValues:
        """What is on disk."""
        return self._opened.values

    def write(self, values: CheckpointValues) -> None:
        """Write values now, and return when they are on disk."""
        self._opened.write(values)

    def soon(self) -> None:
        """Let a worker write the next values, unless it writes already."""
        if self._writing is None:
            work = self._workers.submit(self._opened.write, self._next_values())
            self._writing = work
            self._when_done(work, lambda error: self._written(work, error))

    def finish(self) -> None:
        """Wait for a write in flight: it would replace a newer one."""
        work = self._writing
        if work is not None:
            self._written(work, work.exception())

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()

    @property
    def _opened(self) -> Checkpoint:
        assert self._file is not None
        return self._file

    def _written(self, work: Future[None], error: BaseException | None) -> None:
        if self._writing is not work:
            return  # ``finish`` has waited for it
        self._writing = None
        if isinstance(error, StoreError):
            if not self._fails:  # once, not every second until the disk has space
                # With an older checkpoint a recovery reads more, and loses nothing.
                log.error("the checkpoint could not be written; retrying: %s", error)
            self._fails = True
        elif error is not None:
            raise error
        else:
            self._fails = False
