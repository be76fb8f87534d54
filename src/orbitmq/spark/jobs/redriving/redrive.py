"""Re-drive: chosen dead letters are sent once more, each at most once.

::

    letters ── where, max ──▶ ids ──▶ for each, in the order in which they died:
                                        read the dead letter      gone: refused
                                        ask the target's key index for its copy
                                          there: left             not there: send a copy

The driver does it by ``Admin.redrive_dead_letters``, one after another, so no retried or
speculative task can send twice. A copy has the unique id of the message, and the property
``REDRIVEN_FROM`` with the id of the dead letter; that is how a later re-drive knows it.
"""

from collections import Counter
from typing import Final, Literal

from pyspark.sql import DataFrame

from orbitmq.blocking import Admin
from orbitmq.errors import InvalidInput, NoRoute, NotFound, OrbitError
from orbitmq.message import names
from orbitmq.spark.jobs.dead_letters import selected
from orbitmq.spark.jobs.progress import Progress
from orbitmq.spark.jobs.redriving.figures import Redriven, Refused

__all__ = ["chosen_ids", "dead_letter_topics", "redrive"]

Target = Literal["retry", "origin"]

_MAX: Final = 10_000
_OF_ONE: Final = (InvalidInput, NotFound, NoRoute)
"""Errors of one dead letter, which leave the others alone; nothing was sent."""


def dead_letter_topics(admin: Admin, groups: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the dead letter topics that there are: of some groups, or of all.

    Raises:
        OrbitError: the cluster can't be reached.
    """
    wanted = {names.dead_letter_topic(group) for group in groups}
    return tuple(
        topic
        for topic in admin.topics()
        if topic.startswith(names.DEAD_LETTER_PREFIX) and (not groups or topic in wanted)
    )


def chosen_ids(found: DataFrame, where: str, *, max_letters: int = _MAX) -> list[tuple[str, str]]:
    """Return group and id of the ``letters`` that a condition selects, the oldest first.

    Raises:
        InvalidInput: Spark can't read the condition.
        PySparkException: Spark failed.
    """
    chosen = selected(found, where)
    ordered = chosen.select("group", "id", "died").orderBy("died", "id").limit(max_letters)
    return [(row.group, row.id) for row in ordered.collect()]


def redrive(
    admin: Admin,
    chosen: list[tuple[str, str]],
    *,
    to: Target = "retry",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Redriven:
    """Send chosen dead letters once more; return what was done, also if it ended early.

    Args:
        admin: a started admin of the cluster.
        chosen: groups and ids, from ``chosen_ids``.
        to: ``retry`` for the retry topic, so that only their group gets them; ``origin`` for the
            topic that they were sent to, for all its groups.
        dry_run: send nothing; say what would be sent.
        progress: is called with the letters that are done, and all.
    """
    sent: Counter[str] = Counter()
    refused: list[Refused] = []
    repeated, stopped = 0, ""
    for number, (group, letter_id) in enumerate(chosen, 1):
        try:
            topic = _redrive_one(admin, group, letter_id, to, dry_run=dry_run)
        except _OF_ONE as error:
            refused.append(Refused(letter_id, str(error)))
        except OrbitError as error:
            stopped = f"{letter_id}: {error}"
            break
        else:
            sent.update([topic] if topic else [])
            repeated += not topic
        if progress is not None:
            progress(number, len(chosen))
    return Redriven(
        chosen=len(chosen),
        sent=sent.total(),
        repeated=repeated,
        topics=dict(sent),
        refused=tuple(refused),
        stopped=stopped,
        is_dry_run=dry_run,
    )


def _redrive_one(admin: Admin, group: str, letter_id: str, to: Target, *, dry_run: bool) -> str:
    """Return the topic that a dead letter was or would be sent to; empty if it was before."""
    letter = admin.dead_letter(group, letter_id)
    if dry_run:
        topic = names.retry_topic(group) if to == "retry" else letter.origin_topic
        return "" if admin.redriven_copies(letter, to=to) else topic
    (done,) = admin.redrive_dead_letters([letter], to=to)
    return "" if done.is_repeated else done.topic
