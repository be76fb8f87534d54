"""The disks below a source: how large, how full, and how long messages are kept."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.spark.jobs.sources import Source, Store, admin_of
from orbitmq.store.reader.reader import StoreReader

__all__ = ["Storage", "storage_of"]

_HOUR_MS: Final = 3_600_000
_RESERVED_HOURS: Final = 72  # fileReservedTime, unless it is set
_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CAPACITY: Final = re.compile(r"Total : ([0-9.]+) ([KMGT]i)?B")


class Storage(msgspec.Struct, frozen=True):
    """The disk of one broker, in bytes; a broker counts blocks for root alone into its total."""

    total: int
    used: int
    log: int
    """The part that is the broker's commit log."""
    retention_ms: int


def storage_of(source: Source, retention_ms: int | None = None) -> dict[str, Storage]:
    """Return the disks below a source by the broker's name; that of a store is ``store``.

    ``retention_ms`` counts instead of the brokers' settings.

    Raises:
        OrbitError: a broker can't be reached, or the directory is not a store.
    """
    if isinstance(source, Store):
        reader = StoreReader(source.directory)
        usage = reader.disk.usage(reader.directory)
        log = sum(segment.size for segment in reader.segments)
        kept = _RESERVED_HOURS * _HOUR_MS if retention_ms is None else retention_ms
        return {"store": Storage(usage.total, usage.used, log, kept)}
    with admin_of(source) as admin:
        names = {queue.broker_name for topic in source.names for queue in admin.queues(topic)}
        return {
            name: _of_broker(
                admin.broker_status(name).figures, admin.broker_config(name), retention_ms
            )
            for name in sorted(names)
        }


def _of_broker(
    figures: Mapping[str, str], config: Mapping[str, str], retention_ms: int | None
) -> Storage:
    hours = int(config.get("fileReservedTime", "") or _RESERVED_HOURS)
    total = capacity(figures.get("commitLogDirCapacity", ""))
    return Storage(
        total,
        round(total * float(figures.get("commitLogDiskRatio", "0"))),
        int(figures.get("commitLogMaxOffset", "0")) - int(figures.get("commitLogMinOffset", "0")),
        hours * _HOUR_MS if retention_ms is None else retention_ms,
    )


def capacity(text: str) -> int:
    """Return the total of what a broker says about its disk; 0 if it doesn't.

    >>> capacity("Total : 252.0 GiB, Free : 221.5 GiB.") // (1 << 30)
    252
    """
    found = _CAPACITY.search(text)
    return 0 if found is None else int(float(found[1]) * _UNITS[f"{found[2] or ''}B"])
