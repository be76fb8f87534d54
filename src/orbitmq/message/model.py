"""What a message is: as the user gives it, as a broker stores it, and the receipt between."""

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of a topic on one broker; sorts as in Java: topic, broker, queue id.

    >>> MessageQueue("orders", "broker-a", 3)
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)
    """

    topic: str
    broker_name: str
    queue_id: int
