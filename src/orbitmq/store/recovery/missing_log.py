"""Finding at a start that files of the log are missing: a disk not mounted, files moved away.

What the rest of the store knows about the log:

- Our checkpoint: how much of the log was synced. That is true after a crash, too.
- A Java broker's checkpoint: up to what time the log was synced.
- The queues: where records are. After a crash they may be ahead of the log. Java leaves old
  entries after the end of a queue when it cuts the log, so they count only if the time agrees.
- The list of queue ends: that there were messages.

The oldest files may always be missing, since retention removes them; the newest never.

If the loss is accepted, the log continues in a new file after everything known of it, as if
retention had removed the missing ones. Queues keep their ends, and no offset is given out twice.
"""

import logging
from typing import Final, NamedTuple

from orbitmq.errors import StoreDamaged
from orbitmq.store.checkpoint.checkpoint import CheckpointValues
from orbitmq.store.damage import Damage
from orbitmq.store.log.segments import Segments
from orbitmq.store.queues.consume_queues import ConsumeQueues, Ends
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk

__all__ = ["MissingLog", "accepted_loss", "find_missing_log"]

log = logging.getLogger("orbitmq.store")

_PLAUSIBLE_BYTES: Final = 1 << 40
"""An entry that points further beyond the end of the log than this is damaged."""


class MissingLog(NamedTuple):
    """Log files that are missing: the log must have reached ``end``, or was at least not empty."""

    end: int
    evidence: str

    def refusal(self, chain: Segments) -> StoreDamaged:
        """Return the error for a start that must not lose them."""
        return StoreDamaged(
            f"{chain.directory} has the log up to byte {chain.next_base()}, but {self.evidence}: "
            "files of the log are missing. Mount their disk or put them back; to go on without "
            "their messages start once with --accept-loss",
            path=chain.directory,
            position=chain.next_base(),
        )

    def accept(self, chain: Segments) -> Damage:
        """Let the log continue after the missing files; return what is lost.

        Files missing between two others are replaced by files that contain only the blank at the
        end of a file, which every reader skips.
        """
        begin, size = chain.next_base(), chain.segment_bytes
        base = max(begin + size, self.end + -self.end % size)
        log.error(
            "%s has the log up to byte %d, but %s. The loss is accepted: the log goes on at byte "
            "%d, and queues keep their offsets",
            *(chain.directory, begin, self.evidence, base),
        )
        for missing in range(begin, base, size) if chain.files else ():
            chain.add_blank(missing)
        chain.add(base).file.sync()
        chain.sync_names()
        return Damage(begin, "files of the log are missing; their loss was accepted", base - begin)


def accepted_loss(
    chain: Segments,
    queues: ConsumeQueues,
    known: CheckpointValues,
    listed: Ends,
    *,
    crashed: bool,
    is_accepted: bool,
) -> list[Damage]:
    """Look for missing files at the end of the log; return the loss, if there is one.

    Raise StoreDamaged unless a loss is accepted. The other arguments are as below.
    """
    missing = find_missing_log(chain, queues, known, listed, crashed=crashed)
    if missing is None:
        return []
    if not is_accepted:
        raise missing.refusal(chain)
    return [missing.accept(chain)]


def find_missing_log(
    chain: Segments,
    queues: ConsumeQueues,
    known: CheckpointValues,
    listed: Ends,
    *,
    crashed: bool,
) -> MissingLog | None:
    """Return what is missing at the end of the log; None if nothing is known to be missing.

    The files and queues have been loaded. ``listed`` is where queues ended; empty if that is
    unknown. ``crashed`` is whether the last process did not stop in order.
    """
    synced_end = 0 if known.own is None else known.own.log_end
    if synced_end:
        if synced_end <= chain.next_base():
            return None
        end = max(synced_end, _queues_end(chain, queues))
        return MissingLog(end, f"{synced_end} bytes were on the disk by the checkpoint")
    if chain.files:
        return None if crashed else _missing_by_queues(chain, queues, known)
    if known.log_ms:
        evidence = f"it had messages at {known.log_ms} (ms since 1970) by the checkpoint"
    elif not crashed and any(any(ends.values()) for ends in listed.values()):
        evidence = f"{sum(sum(ends.values()) for ends in listed.values())} messages are listed"
    else:
        return None if crashed else _missing_by_queues(chain, queues, known)
    return MissingLog(_queues_end(chain, queues), evidence)


def _missing_by_queues(
    chain: Segments, queues: ConsumeQueues, known: CheckpointValues
) -> MissingLog | None:
    """Return what is missing after an orderly stop, as far as the queues tell."""
    end = _queues_end(chain, queues)
    if end <= chain.next_base() or (
        chain.files and known.is_of_another and _last_store_ms(chain) >= known.log_vouched_ms
    ):
        return None
    return MissingLog(end, f"consume queues lead to messages up to byte {end}")


def _queues_end(chain: Segments, queues: ConsumeQueues) -> int:
    """Return where the last record ends that a queue leads to."""
    queues.recover()
    most = chain.next_base() + _PLAUSIBLE_BYTES
    return max((queue.record_end for queue in queues if queue.record_end <= most), default=0)


def _last_store_ms(chain: Segments) -> int:
    walk = RecoveryWalk(chain, len(chain.files) - 1, vouched_ms=ALL_VOUCHED)
    for _ in walk:
        pass
    return walk.last_store_ms
