"""Transactions, requests and recalls of a whole producer, against brokers by script."""

import asyncio
import threading
from collections.abc import Mapping

import pytest

from orbitmq import embedded
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import (
    InvalidInput,
    NoReply,
    NotRunning,
    RequestTimeout,
    SendTimeout,
    TransactionNotBegun,
)
from orbitmq.message import properties
from orbitmq.message.ids import recall_handle
from orbitmq.message.model import Message, MessageQueue, SendReceipt, StoredMessage
from orbitmq.net.connection import Connection, Outcome
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import RecallMessage, RecallMessageAnswer, ReplyMessage
from orbitmq.wire.headers.transaction import CheckTransactionState, EndTransaction
from orbitmq.wire.session import Response
from tests.client import frames
from tests.client.core.test_request_reply import a_request, pushed
from tests.client.post import Post, open_producer, status
from tests.client.scene import BROKER_A, BROKER_B, NAMES, Scene, play, route

COMMIT, ROLLBACK, UNKNOWN = TransactionState
MESSAGE = Message("orders", b"paid")


class Broker(Post):
    """Broker a, which also hears what else producers say, and can speak to them."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.ends: list[EndTransaction] = []
        self.recalls: list[RecallMessage] = []
        self.callers: list[Connection] = []
        self.heartbeats = 0
        self.replies = True

    def hear(self, connection: Connection, request: Frame) -> Outcome:
        if connection not in self.callers:
            self.callers.append(connection)
        if request.code == RequestCode.END_TRANSACTION:
            self.ends.append(request.read(EndTransaction))
            return None
        if request.code == RequestCode.RECALL_MESSAGE:
            self.recalls.append(request.read(RecallMessage))
            return Response(header=RecallMessageAnswer(msg_id="7F01"))
        if request.code == RequestCode.HEART_BEAT:
            self.heartbeats += 1
        outcome = self.serve(BROKER_A)(connection, request)
        if self.replies and self.sent and "CORRELATION_ID" in self.sent[-1].properties:
            self.push(connection, self.sent[-1].properties)
        return outcome

    def push(self, connection: Connection, asked: Mapping[str, str]) -> None:
        frame = pushed(asked["CORRELATION_ID"])
        header = frame.read(ReplyMessage)
        connection.start_request(header, bytes(frame.body), timeout_ms=3_000)

    def check(self, message_id: str, *, group: str = "billing") -> None:
        header = frames.check().read(CheckTransactionState)
        self.callers[-1].oneway(header, frames.half_message(message_id, group=group))

    @property
    def decisions(self) -> list[TransactionState]:
        states = {state.wire: state for state in TransactionState}
        return [states[end.commit_or_rollback] for end in self.ends]


async def opened(scene: Scene, **options: object) -> tuple[Broker, Producer]:
    broker = Broker(scene)
    scene.routes["orders"] = route("a", queues=2)
    scene.routes["DefaultCluster_REPLY_TOPIC"] = route("a", queues=1)
    await scene.nameserver()
    await scene.listen(BROKER_A, broker.hear)
    return broker, await open_producer(scene, **options)


# Transactions


def test_a_block_commits_at_the_broker_that_holds_the_half() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        async with producer.transaction(MESSAGE) as begun:
            (half,) = broker.sent
            assert half.properties[properties.TRANSACTION_PREPARED] == "true"
            assert half.properties[properties.PRODUCER_GROUP] == "billing"
            assert half.header.sys_flag == 4
        await scene.clock.sleep(1)
        (end,) = broker.ends
        assert (end.commit_or_rollback, end.msg_id) == (COMMIT.wire, begun.message_id)
        assert (end.target_broker, end.producer_group) == ("broker-a", "billing")

    play(story)


def test_a_half_message_that_is_not_sure_is_rolled_back() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        broker.always = {"a": status(broker, ResponseCode.FLUSH_DISK_TIMEOUT)}
        with pytest.raises(TransactionNotBegun):
            async with producer.transaction(MESSAGE):
                pytest.fail("the block ran")
        await scene.clock.sleep(1)
        assert broker.decisions == [ROLLBACK]

    play(story)


def test_a_half_message_that_is_less_safe_than_required_is_rolled_back() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, require="replicated")
        broker.always = {"a": status(broker, ResponseCode.FLUSH_SLAVE_TIMEOUT)}
        with pytest.raises(TransactionNotBegun):
            async with producer.transaction(MESSAGE):
                pytest.fail("the block ran")
        ended = await producer.send_in_transaction(MESSAGE, lambda _message: COMMIT)
        assert ended.state is ROLLBACK
        await scene.clock.sleep(1)
        assert broker.decisions == [ROLLBACK, ROLLBACK]

    play(story)


def test_many_half_messages_are_stored_and_left_to_the_caller() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, retries=0)
        messages = [Message("orders", b"%d" % number) for number in range(600)]
        messages[7] = messages[7].replace(sharding_key="o-7")
        queues: list[MessageQueue | None] = [None] * 600
        queues[5] = MessageQueue("orders", "broker-a", 1)
        found = await producer.prepare_many(messages, queues=queues, immunity_s=90)
        receipts = [one for one in found if isinstance(one, SendReceipt)]
        assert len({receipt.message_id for receipt in receipts}) == 600
        assert receipts[5].queue.queue_id == 1
        by_body = {one.body: one for one in broker.sent}
        for message, receipt in zip(messages, receipts, strict=True):
            half = by_body[message.body]
            assert half.properties[properties.TRANSACTION_PREPARED] == "true"
            assert half.properties[properties.PRODUCER_GROUP] == "billing"
            assert half.properties[properties.CHECK_IMMUNITY_SECONDS] == "90"
            assert half.properties[properties.UNIQUE_KEY] == receipt.message_id
            assert half.header.sys_flag == 4
        await scene.clock.sleep(1)
        assert broker.ends == []

    play(story)


def test_each_of_many_half_messages_has_its_own_error() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, retries=0)
        broker.always = {"a": status(broker, ResponseCode.FLUSH_DISK_TIMEOUT)}
        found = await producer.prepare_many([MESSAGE, MESSAGE])
        assert [type(one) for one in found] == [TransactionNotBegun] * 2
        await scene.clock.sleep(1)
        assert broker.decisions == [ROLLBACK] * 2
        assert await producer.prepare_many([]) == []
        with pytest.raises(InvalidInput, match="can't be delayed"):
            await producer.prepare_many([MESSAGE, MESSAGE.replace(delay_level=3)])

    play(story)


def test_local_work_on_a_thread_holds_up_neither_sends_nor_a_close() -> None:
    async def main() -> None:
        going, over = threading.Event(), threading.Event()
        given_up: list[bool] = []

        def slow(_message: Message) -> TransactionState:
            going.set()
            given_up.extend([True] * (not over.wait(30)))
            return COMMIT

        async with embedded.EmbeddedCluster() as cluster:
            client = ClientSettings(nameserver=cluster.nameserver, keep_open_ms=0)
            producer = Producer("billing", client=client)
            await producer.start()
            assert producer._exchanges is not None
            user_code = producer._exchanges._transactions.user_code
            works = [  # more than there are threads
                asyncio.create_task(user_code.call(slow, MESSAGE)) for _ in range(8)
            ]
            try:
                await asyncio.to_thread(going.wait)
                large = Message("orders", bytes(range(256)) * 256)  # compressed on a thread
                assert (await producer.send(large)).queue_offset == 0
                await producer.close()
                assert not given_up, "something waited for the user's function"
            finally:
                over.set()
            await asyncio.gather(*works, return_exceptions=True)

    asyncio.run(main())


def test_the_brokers_questions_are_answered() -> None:
    class Listener:
        async def execute(self, message: Message) -> TransactionState:
            return UNKNOWN

        def check(self, message: StoredMessage) -> TransactionState:
            return COMMIT if message.message_id == "known" else ROLLBACK

    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, transaction_listener=Listener())
        sent = await producer.send_in_transaction(MESSAGE)
        assert sent.state is UNKNOWN
        await scene.clock.sleep(1)
        for message_id in ("known", "other"):
            broker.check(message_id)
        broker.check("known", group="somebody else's")
        await scene.clock.sleep(1)
        assert broker.decisions == [UNKNOWN, COMMIT, ROLLBACK]
        assert [end.from_transaction_check for end in broker.ends] == [False, True, True]

    play(story)


def test_a_function_alone_answers_questions_too() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, transaction_listener=lambda _message: COMMIT)
        await producer.send(MESSAGE)
        broker.check("any")
        await scene.clock.sleep(1)
        assert broker.decisions == [COMMIT]
        with pytest.raises(InvalidInput, match="has no local work"):
            await producer.send_in_transaction(MESSAGE)

    play(story)


def test_a_lost_decision_is_sent_again_when_the_broker_asks() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        async with producer.transaction(MESSAGE) as begun:
            scene.network.cut()
            scene.network.carries = False
        scene.network.carries = True
        await scene.clock.sleep(10)
        await producer.send(MESSAGE)
        del broker.ends[:]
        broker.check(begun.message_id)
        await scene.clock.sleep(1)
        assert broker.decisions == [COMMIT]

    play(story)


def test_a_question_that_can_not_be_read_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, transaction_listener=lambda _message: COMMIT)
        await producer.send(MESSAGE)
        header = frames.check().read(CheckTransactionState)
        broker.callers[-1].oneway(header, frames.half_message() + b"more")
        await scene.clock.sleep(1)
        assert broker.ends == []

    play(story)
    assert "a transaction check can't be read" in caplog.text


def test_a_producer_that_is_closed_answers_nothing() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene, transaction_listener=lambda _message: COMMIT)
        _other = await open_producer(scene)  # keeps the connection
        await producer.send(MESSAGE)
        await producer.close()
        broker.check("any")
        await scene.clock.sleep(1)
        assert broker.ends == []
        with pytest.raises(NotRunning):
            producer.transaction(MESSAGE)

    play(story)


# Requests and replies


def test_a_request_gets_its_reply() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        reply = await producer.request(MESSAGE)
        assert reply.body == b"done"
        (sent,) = broker.sent
        assert sent.properties["REPLY_TO_CLIENT"] == producer.client_id
        assert broker.heartbeats >= 1  # or the broker could not push it

    play(story)


def test_without_a_reply_there_is_an_error_in_time() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        broker.replies = False
        began = scene.clock.monotonic_ms()
        with pytest.raises(NoReply):
            await producer.request(MESSAGE, timeout_ms=700)
        assert scene.clock.monotonic_ms() - began == 700

    play(story)


def test_a_silent_nameserver_takes_no_more_than_the_time_of_a_request_or_a_recall() -> None:
    async def story(scene: Scene) -> None:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        producer = await open_producer(scene)
        with pytest.raises(SendTimeout, match="names-1:9876: no answer yet"):
            await producer.request(MESSAGE, timeout_ms=700)
        assert scene.clock.monotonic_ms() == 700
        handle = recall_handle("orders", "broker-a", 1_700_000_000_000, "7F01")
        with pytest.raises(RequestTimeout, match="timed out after 200 ms"):
            await producer.recall("orders", handle, timeout_ms=200)
        assert scene.clock.monotonic_ms() == 900

    play(story)


def test_a_broker_that_is_gone_does_not_hold_up_requests_to_the_other() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        scene.routes["orders"] = route("a", "b", queues=1)
        await scene.listen(BROKER_B, lambda _connection, _request: None)
        queue = MessageQueue("orders", "broker-a", 0)
        for _ in range(3):  # the first one waits for a greeting that does not come
            await producer.request(MESSAGE, queue=queue, timeout_ms=2_000)
            await scene.clock.sleep(3)
        assert [sent.at_ms for sent in broker.sent] == [1_000, 4_000, 7_000]

    play(story)


def test_a_request_goes_to_the_chosen_queue() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        queue = (await producer.queues("orders"))[1]
        for _ in range(3):
            await producer.request(MESSAGE, queue=queue)
        assert [sent.header.queue_id for sent in broker.sent] == [1, 1, 1]

    play(story)


def test_a_reply_is_sent_as_one() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        broker.replies = False
        await producer.reply(a_request(), b"done")
        (sent,) = broker.sent
        assert sent.code == RequestCode.SEND_REPLY_MESSAGE_V2
        assert sent.header.topic == "DefaultCluster_REPLY_TOPIC"
        assert sent.properties["CORRELATION_ID"] == "c-1"
        assert sent.properties["MSG_TYPE"] == "reply"

    play(story)


# Recalls


@pytest.mark.parametrize("broker_name", ["broker-a", "broker-behind-a-proxy"])
def test_a_message_is_called_back(broker_name: str) -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        handle = recall_handle("orders", broker_name, 1_700_000_000_000, "7F01")
        assert await producer.recall("orders", handle) == "7F01"
        (asked,) = broker.recalls
        assert (asked.topic, asked.producer_group) == ("orders", "billing")
        assert asked.target_broker == broker_name

    play(story)


def test_several_exchanges_at_once_do_not_mix() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        replies = await asyncio.gather(*(producer.request(MESSAGE) for _ in range(20)))
        ids = [reply.properties["CORRELATION_ID"] for reply in replies]
        assert ids == [sent.properties["CORRELATION_ID"] for sent in broker.sent]

    play(story)
