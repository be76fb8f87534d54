"""A send as a producer would say it."""

from orbitmq.wire.headers.send import SendMessageV2

BORN_MS = 1_700_000_000_123


def send_header(
    topic: str,
    *,
    properties: str = "",
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    batch: bool = False,
) -> SendMessageV2:
    """Return the header of a send to queue 0, born at ``BORN_MS``."""
    return SendMessageV2(
        producer_group="senders",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=BORN_MS,
        flag=flag,
        properties=properties,
        reconsume_times=reconsume_times,
        unit_mode=False,
        batch=batch,
    )
