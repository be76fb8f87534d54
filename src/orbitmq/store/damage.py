"""Places of a store that can't be read, and how they are reported."""

import logging
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from orbitmq.errors import StoreDamaged
from orbitmq.store.layout import COMMIT_LOG

__all__ = ["Damage", "OnDamage", "raise_damage"]

log = logging.getLogger("orbitmq.store")


class Damage(msgspec.Struct, frozen=True, gc=False):
    """A place that a reader could not read and skipped.

    Attributes:
        position: its first byte, counted in the stream ``where``.
        reason: what is wrong there.
        skipped_bytes: how many bytes were skipped.
        where: the stream: ``commitlog``, ``consumequeue/<topic>/<queue>``, or an index file.
        harmless: True for what a sound store may contain: stale bytes after the end of the log, or
            a file that retention deleted before it was read.

    >>> print(Damage(4096, "not a record; its magic is 0x00000001", 300))
    commitlog at byte 4096: not a record; its magic is 0x00000001 (300 bytes skipped)
    """

    position: int
    reason: str
    skipped_bytes: int
    where: str = COMMIT_LOG
    harmless: bool = False

    def __str__(self) -> str:
        skipped = f" ({self.skipped_bytes} bytes skipped)" if self.skipped_bytes else ""
        return f"{self.where} at byte {self.position}: {self.reason}{skipped}"


OnDamage: TypeAlias = Callable[[Damage], None]


def raise_damage(damage: Damage) -> None:
    """Raise StoreDamaged for a damage, or log it if it is harmless.

    A reader calls this if its caller gave no ``on_damage``.

    >>> raise_damage(Damage(4096, "truncated; 300 bytes needed", 20))
    Traceback (most recent call last):
    orbitmq.errors.StoreDamaged: commitlog at byte 4096: truncated; 300 bytes needed (20 bytes \
skipped)
    """
    if damage.harmless:
        log.warning("%s", damage)
        return
    raise StoreDamaged(str(damage), path=damage.where, position=damage.position)
