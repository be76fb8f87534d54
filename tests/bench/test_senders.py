import asyncio

from bench.senders import Load, Sends, ThreadSends
from orbitmq import blocking, embedded
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import SendRefusedBusy
from orbitmq.message.model import Message, SendReceipt

ONE_BY_ONE = Load(in_flight=4, together=1, gathered=False, threads=False, messages=10)
IN_BATCHES = Load(in_flight=2, together=5, gathered=False, threads=False, messages=10)


class BusyAtFirst(Producer):
    """Refuses the first send, as a busy broker does."""

    refused = False

    async def send(self, message: Message, **_others: object) -> SendReceipt:
        if not self.refused:
            self.refused = True
            raise SendRefusedBusy("busy", topic=message.topic, send_id="1", code=2, remark=None)
        return await super().send(message)


async def stored(load: Load, kind: type[Producer] = Producer) -> tuple[int, int]:
    """Return how many messages are stored after a load, and how many sends were refused."""
    async with (
        EmbeddedCluster() as cluster,
        kind("bench", nameserver=cluster.nameserver) as producer,
    ):
        sends = Sends(producer, load, b"x")
        await sends.run(load.messages // load.together)
        return producer.statistics.sent, sends.refused


def test_all_messages_of_a_load_are_sent() -> None:
    assert asyncio.run(stored(ONE_BY_ONE)) == (10, 0)
    assert asyncio.run(stored(IN_BATCHES)) == (10, 0)


def test_what_is_refused_is_sent_again() -> None:
    assert asyncio.run(stored(ONE_BY_ONE, BusyAtFirst)) == (10, 1)


class BusyFace(blocking.Producer):
    """Refuses the first send, as a busy broker does."""

    refused = False

    def send(self, message: Message, **_others: object) -> SendReceipt:
        if not self.refused:
            self.refused = True
            raise SendRefusedBusy("busy", topic=message.topic, send_id="1", code=2, remark=None)
        return super().send(message)


def test_threads_send_all_messages_too() -> None:
    with (
        embedded.start() as cluster,
        BusyFace("bench", nameserver=cluster.nameserver) as producer,
    ):
        assert ThreadSends(producer, 3, b"x").run(10) == 1
        assert producer.statistics.sent == 10
