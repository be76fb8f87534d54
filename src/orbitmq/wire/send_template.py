"""Send headers by the thousand: what they share is made into texts once."""

from orbitmq.wire.fields import Header
from orbitmq.wire.headers.send import SendMessage, SendMessageV2

__all__ = ["SendTemplate"]


class _FilledSend(Header):
    """A send header whose fields are texts already; made by a template, for one request."""

    texts: dict[str, str]

    def to_texts(self) -> dict[str, str]:
        """Return the texts themselves: nobody else has them."""
        return self.texts


class SendTemplate:
    r"""A send header for many messages: what they share is made into texts once.

    To make a header and its texts costs a producer 2 µs a message; to fill a template in, a fifth.

    Args:
        header: what the messages share: the group, the topic, the queue, and so on.

    >>> template = SendTemplate(SendMessageV2(
    ...     producer_group="billing", topic="orders", default_topic="TBW102",
    ...     default_topic_queue_nums=4, queue_id=3, sys_flag=0, born_timestamp=0, flag=0))
    >>> template.fill("1700000000000", "TAGS\x01paid\x02").to_texts()["g"]
    '1700000000000'

    """

    __slots__ = ("_born", "_flag", "_properties", "_sys_flag", "_texts")

    def __init__(self, header: SendMessage | SendMessageV2) -> None:
        name_of = dict(
            zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True)
        ).__getitem__
        self._texts = header.to_texts()
        self._born = name_of("born_timestamp")
        self._properties = name_of("properties")
        self._sys_flag = name_of("sys_flag")
        self._flag = name_of("flag")

    def fill(
        self, born_timestamp: str, properties: str, *, sys_flag: int = 0, flag: int = 0
    ) -> Header:
        """Return the header of one message, for one request."""
        texts = self._texts.copy()
        texts[self._born] = born_timestamp
        texts[self._properties] = properties
        if sys_flag:
            texts[self._sys_flag] = str(sys_flag)
        if flag:
            texts[self._flag] = str(flag)
        return _FilledSend(texts=texts)
