"""Pull headers of one queue, with the constant part encoded once."""

from orbitmq.wire.fields import Header
from orbitmq.wire.headers.pull import PullMessage

__all__ = ["PullTemplate"]


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
