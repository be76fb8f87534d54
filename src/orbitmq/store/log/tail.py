"""The log from any offset on, in pieces that pass through untouched: what replicas get.

A piece lies in one file, so it is a view of the file's map, and ends at the end of the log at most.
It may begin and end inside a record, and may contain the blank of a file.
"""

from orbitmq.store.log.commit_log import CommitLog

__all__ = ["LogTail"]


class LogTail:
    """Reads a log that is being written."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def __repr__(self) -> str:
        return f"<LogTail of {self._log!r}>"

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is left."""
        return self._log.first_offset

    @property
    def end(self) -> int:
        """The offset after the last byte that is written."""
        return self._log.end

    def last_file_offset(self) -> int:
        """Return where the newest file begins."""
        return self.end - self.end % self._log.segment_bytes

    def piece(self, offset: int, most: int) -> memoryview | None:
        """Return up to ``most`` bytes from an offset on; None if the log has none there."""
        size = min(most, self.end - offset, self._log.next_segment_offset(offset) - offset)
        return self._log.view(offset, size) if size > 0 else None
