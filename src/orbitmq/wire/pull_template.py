"""The headers of pulls and of their answers, with the constant part encoded once."""

from typing import Final

from orbitmq.wire.fields import Header
from orbitmq.wire.headers.pull import PullMessage, PullMessageAnswer

__all__ = ["FilledPullAnswer", "PullTemplate"]


class _FilledPull(Header):
    """A pull header made by a template, for one request; its fields are texts already."""

    texts: dict[str, str]

    def to_texts(self) -> dict[str, str]:
        """Return the texts, not a copy."""
        return self.texts


_FilledPull.code = PullMessage.code


class PullTemplate:
    """A header for many pulls of one queue, with the constant part encoded once.

    The offset and count of the given header are ignored.

    >>> template = PullTemplate(PullMessage(
    ...     consumer_group="billing", topic="orders", queue_id=3, queue_offset=0, max_msg_nums=0,
    ...     sys_flag=0, commit_offset=0, suspend_timeout_millis=0, sub_version=0))
    >>> template.fill(41, 32).to_texts()["queueOffset"]
    '41'
    """

    __slots__ = ("_texts",)

    def __init__(self, header: PullMessage) -> None:
        self._texts = header.to_texts()

    def fill(self, queue_offset: int, max_msg_nums: int) -> Header:
        """Return the header of one pull, for one request."""
        texts = self._texts.copy()
        texts["queueOffset"] = str(queue_offset)
        texts["maxMsgNums"] = str(max_msg_nums)
        return _FilledPull(texts=texts)


_ANSWER: Final = (
    b'{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"}'
)


class FilledPullAnswer(PullMessageAnswer):
    """The answer to a pull with the fields that brokers set, written in a third of the time.

    >>> FilledPullAnswer(suggest_which_broker_id=0, next_begin_offset=32, min_offset=0,
    ...     max_offset=40, topic_sys_flag=0, group_sys_flag=0).to_json()[:49]
    b'{"suggestWhichBrokerId":"0","nextBeginOffset":"32'
    """

    def to_json(self) -> bytes:
        """Return the fields; with others set, or one of these not, as every header does."""
        topic_flag, group_flag = self.topic_sys_flag, self.group_sys_flag
        is_usual = self.offset_delta is None and self.forbidden_type is None
        if not is_usual or topic_flag is None or group_flag is None:
            return super().to_json()
        return _ANSWER % (
            self.suggest_which_broker_id,
            self.next_begin_offset,
            self.min_offset,
            self.max_offset,
            topic_flag,
            group_flag,
        )
