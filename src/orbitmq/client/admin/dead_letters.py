"""Dead letters: messages that a group failed to consume too often, listed and sent once more.

::

    %DLQ%group ── dead_letters ──▶ DeadLetter ── redrive_dead_letters ──▶ %RETRY%group, or origin
         └─ stays there

A re-driven copy keeps its unique id and says which dead letter it is of (``REDRIVEN_FROM``). Before
a send, the key index of the target is asked for that id, so a repeated re-drive finds the copy and
does not send another one: after a failure, the same call may be repeated. Dead letters are never
removed; brokers delete them like other messages.
"""

import re
from collections.abc import AsyncIterator, Iterable
from typing import Final, Literal

import msgspec

from orbitmq.client.admin.resending import ResendAdmin
from orbitmq.client.arguments import check_text
from orbitmq.errors import InvalidInput, MessageRefused, NoRoute, NotFound, OrbitError
from orbitmq.message import names, properties
from orbitmq.message.model import SendReceipt, StoredMessage
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX

__all__ = ["DeadLetter", "DeadLetterAdmin", "Redrive"]

REDRIVEN_FROM: Final = "REDRIVEN_FROM"
REDRIVE_TIMES: Final = "REDRIVE_TIMES"
_NUMBER: Final = re.compile("[0-9]{1,9}")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a group failed to consume too often.

    Attributes:
        group: the group.
        message: the message in the dead letter topic of the group.
        origin_topic: the topic it was sent to; empty if that is not recorded.
        reconsume_times: how often it was delivered again, before it was given up.
        age_ms: how long ago it was given up.
        redrive_times: how often it was re-driven before; it was given up again since.
    """

    group: str
    message: StoredMessage
    origin_topic: str
    reconsume_times: int
    age_ms: int
    redrive_times: int

    @property
    def id(self) -> str:
        """The id of the dead letter: that of its place, since copies share the unique id."""
        return self.message.offset_message_id


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """What was done with one dead letter.

    Attributes:
        letter: the dead letter.
        topic: where it was sent to.
        receipt: the broker's receipt; None if nothing was sent, because a copy was there already.
        earlier: the copies of the same dead letter that were there already.
    """

    letter: DeadLetter
    topic: str
    receipt: SendReceipt | None
    earlier: tuple[StoredMessage, ...]

    @property
    def is_repeated(self) -> bool:
        """Whether the dead letter had been re-driven before."""
        return bool(self.earlier)


class DeadLetterAdmin(ResendAdmin):
    """What an `Admin` does with dead letters."""

    async def dead_letters(
        self, group: str, begin_ms: int = 0, end_ms: int = INT64_MAX
    ) -> AsyncIterator[DeadLetter]:
        """Iterate over the dead letters of a group; an unknown group has none.

        ::

            old = [one async for one in admin.dead_letters("billing") if one.age_ms > HOUR_MS]
            await admin.redrive_dead_letters(old)

        Args:
            group: the group.
            begin_ms: the earliest time it was given up, in milliseconds since 1970.
            end_ms: the latest time.

        Raises:
            OrbitError: a broker can't be reached, or refuses.
        """
        check_text(group, "group")
        try:
            async for message in self.messages_between(
                names.dead_letter_topic(group), begin_ms, end_ms
            ):
                yield self._letter(group, message)
        except NoRoute as error:
            if not error.is_missing:  # the topic comes with the first dead letter
                raise

    async def dead_letter(self, group: str, message_id: str) -> DeadLetter:
        """Return a dead letter by its id or its unique id; the newest if it died several times.

        Raises:
            NotFound: the group has no such dead letter.
            OrbitError: the brokers can't be reached.
        """
        check_text(group, "group")
        topic = names.dead_letter_topic(group)
        try:
            copies = await self._copies(topic, message_id)
            message = copies[-1] if copies else await self.view_message(topic, message_id)
        except NoRoute as error:
            if not error.is_missing:
                raise
            raise NotFound(ResponseCode.NO_MESSAGE, f"group {group} has no dead letters") from error
        if message.topic != topic:
            raise NotFound(
                ResponseCode.NO_MESSAGE, f"{message_id:.64} is no dead letter of group {group}"
            )
        return self._letter(group, message)

    async def redriven_copies(
        self, letter: DeadLetter, *, to: Literal["retry", "origin"] = "retry"
    ) -> tuple[StoredMessage, ...]:
        """Return the copies of a dead letter that re-drives have sent to a target, if any.

        Raises:
            NoRoute: the target is unknown.
            OrbitError: a broker of the target can't be reached, or refuses.
        """
        _check_target(to)
        copies = await self._all_copies(self._redrive_topic(letter, to), letter.message.message_id)
        return tuple(one for one in copies if one.properties.get(REDRIVEN_FROM) == letter.id)

    async def redrive_dead_letters(
        self,
        letters: Iterable[DeadLetter],
        *,
        to: Literal["retry", "origin"] = "retry",
        again: bool = False,
    ) -> list[Redrive]:
        """Send dead letters once more, one after another; return what was done with each.

        A copy has a full number of retries, and keeps unique id, keys, tag and properties. A dead
        letter whose copy is in the target already is not sent again, and its result says so. That
        needs the broker's key index (``messageIndexEnable``), which follows within milliseconds.

        Args:
            letters: the dead letters, from ``dead_letters``.
            to: ``retry`` for the retry topic, so that only their group gets them; ``origin`` for
                the topic that they came from, for all its groups. Of a group that consumes in
                order, brokers make dead letters of what is sent to its retry topic: use ``origin``.
            again: send even if there is a copy.

        Raises:
            NoRoute: a target is unknown, or can't be written to.
            MessageRefused: the broker did not store a copy in the target.
            OrbitError: a broker of a target can't be reached, or refuses: it may have a copy.
                Letters before the failed one are sent, as a note of the error says; repeat the
                call to go on.
        """
        _check_target(to)
        chosen = list({letter.id: letter for letter in letters}.values())
        done: list[Redrive] = []
        for letter in chosen:
            try:
                done.append(await self._redrive(letter, to, again=again))
            except OrbitError as error:
                error.add_note(
                    f"{len(done)} of {len(chosen)} dead letters were re-driven before "
                    f"{letter.id}; repeat the call to go on with it"
                )
                raise
        return done

    def _redrive_topic(self, letter: DeadLetter, to: str) -> str:
        """Return the topic that a dead letter is sent to."""
        topic = names.retry_topic(letter.group) if to == "retry" else letter.origin_topic
        if not topic:
            raise InvalidInput(
                f"dead letter {letter.id} does not say which topic it came from; re-drive it with "
                "to='retry'",
                field="to",
            )
        return topic

    async def _redrive(
        self, letter: DeadLetter, to: Literal["retry", "origin"], *, again: bool
    ) -> Redrive:
        topic = self._redrive_topic(letter, to)
        unique_id = letter.message.message_id
        earlier = await self.redriven_copies(letter, to=to)
        if earlier and not again:
            return Redrive(letter=letter, topic=topic, receipt=None, earlier=earlier)
        times = str(letter.redrive_times + len(earlier) + 1)
        marks = {REDRIVEN_FROM: letter.id, REDRIVE_TIMES: times}
        if to == "retry" and letter.origin_topic:
            # Consumers show a retried message under this topic.
            marks[properties.RETRY_TOPIC] = self._wrapped(letter.origin_topic)
        queue = await self._target(topic, letter.message)
        receipt = await self._publish(letter.message, queue, unique_id, marks)
        await self._check_landed(receipt, topic, times)
        return Redrive(letter=letter, topic=topic, receipt=receipt, earlier=earlier)

    async def _check_landed(self, receipt: SendReceipt, topic: str, times: str) -> None:
        """Check where the broker stored a copy: its answer does not say."""
        stored = await self.view_message(topic, receipt.offset_message_id)
        reason = ""
        if stored.topic != topic:
            reason = f"it stored it in {stored.topic}: the group consumes in order"
        elif stored.properties.get(REDRIVE_TIMES) != times:
            reason = "it took it for a repeated send (sendDeduplicationEnable)"
        if reason:
            raise MessageRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the broker did not store the copy in {topic}; {reason}",
                address=str(stored.store_host),
            )

    def _letter(self, group: str, message: StoredMessage) -> DeadLetter:
        found = message.properties
        origin = found.get(properties.DLQ_ORIGIN_TOPIC) or found.get(properties.RETRY_TOPIC, "")
        times = found.get(REDRIVE_TIMES, "")
        return DeadLetter(
            group=group,
            message=message,
            origin_topic=self._unwrapped(origin),
            reconsume_times=message.reconsume_times,
            age_ms=self._core.machine.clock.now_ms() - message.store_timestamp_ms,
            redrive_times=int(times) if _NUMBER.fullmatch(times) else 0,
        )


def _check_target(to: str) -> None:
    if to not in ("retry", "origin"):
        raise InvalidInput(f"to is {str(to)[:40]!r}; it must be retry or origin", field="to")
