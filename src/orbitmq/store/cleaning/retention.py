"""Which log files may be removed: by age at the configured hour, or when the disk fills up.

Java's rules (``DefaultMessageStore.CleanCommitLogService``). Files are removed oldest first, the
newest never; a round ends at the first file that is kept, or after ten files.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from orbitmq.store.settings import StoreSettings

__all__ = ["FILES_PER_ROUND", "AgedFile", "Retention"]

log = logging.getLogger("orbitmq.store")

FILES_PER_ROUND: Final = 10
_HOUR_MS: Final = 3_600_000


_LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "disk_used_max_percent": (10, 95),
    "disk_clean_forcibly_percent": (30, 85),
    "disk_full_percent": (35, 90),
}
"""Java accepts any percentage and clamps it to these limits (``MessageStoreConfig``,
``CleanCommitLogService``): a typing error must not remove all files or stop all writing."""


class AgedFile(NamedTuple):
    """A log file, and when it was last written."""

    base: int
    modified_ms: int


class Retention:
    """Decides which files to remove; it removes nothing itself.

    >>> settings = StoreSettings(reserved_hours=1, delete_when="04;16")
    >>> files = [AgedFile(0, 0), AgedFile(100, 0), AgedFile(200, 0)]
    >>> Retention(settings).expired(files, now_ms=3_600_000, hour="16", used=0.5)
    2
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._reserved_ms = settings.reserved_hours * _HOUR_MS
        self._hours = {hour.strip().zfill(2) for hour in settings.delete_when.split(";")}
        self._used_max, self._forcibly, self._full = (
            _within(name, getattr(settings, name)) / 100 for name in _LIMITS
        )

    def is_full(self, used: float) -> bool:
        """Return whether the disk is too full to accept writes."""
        return used > self._full

    def expired(
        self,
        files: Sequence[AgedFile],
        *,
        now_ms: int,
        hour: str,
        used: float,
        asked: bool = False,
    ) -> int:
        """Return how many of the oldest files are to be removed now.

        ``files`` begins with the oldest; ``hour`` has two digits; ``used`` is the used fraction of
        the disk, from 0 to 1. With ``asked``, an operator asked for it, whatever the hour.
        """
        if not (asked or hour in self._hours or used > self._used_max):
            return 0
        forced = used > self._forcibly
        count = 0
        for file in files[:-1][:FILES_PER_ROUND]:
            if not forced and now_ms < file.modified_ms + self._reserved_ms:
                break
            count += 1
        return count


def _within(name: str, percent: int) -> int:
    """Return a percentage clamped to its limits; log a change."""
    least, most = _LIMITS[name]
    nearest = min(max(percent, least), most)
    if nearest != percent:
        log.warning(
            "%s is %d; %d is used, since it must be from %d to %d",
            *(name, percent, nearest, least, most),
        )
    return nearest
