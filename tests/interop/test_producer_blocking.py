"""The face without a loop against a Java broker: transactions and requests."""

import pytest

from orbitmq import blocking
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message
from tests.interop.clients import consuming
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import CLOSE_RESPONDER, OPEN_RESPONDER, ConsumerOptions


def test_a_block_that_ends_well_commits_and_any_other_rolls_back(
    java: Java, java_cluster: JavaCluster
) -> None:
    topic = java_cluster.create_topic("blocking-transactions")
    nameserver = str(java_cluster.nameserver.address)
    with blocking.Producer("tx-threads", nameserver=nameserver) as producer:
        with producer.transaction(Message(topic, b"committed")) as begun:
            assert begun.state is None
        assert begun.state is TransactionState.COMMIT
        with pytest.raises(InvalidInput, match="has already ended with COMMIT"):
            begun.rollback()
        with pytest.raises(KeyboardInterrupt):
            with producer.transaction(Message(topic, b"interrupted")):
                raise KeyboardInterrupt
        with producer.transaction(Message(topic, b"rolled back")) as other:
            other.rollback()
        sent = producer.send_in_transaction(
            Message(topic, b"by a function"), lambda _message: TransactionState.COMMIT
        )
        assert sent.state is TransactionState.COMMIT
        producer.send(Message(topic, b"last"))
    options = ConsumerOptions(nameserver=nameserver, group=f"readers-of-{topic}", topic=topic)
    with consuming(java, options) as consumer:
        messages = {one.body: one.message_id for one in consumer.wait_for(3)}
    assert set(messages) == {b"committed", b"by a function", b"last"}
    assert messages[b"committed"] == begun.message_id


def test_a_java_consumer_replies_to_requests(java: Java, java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("blocking-requests")
    nameserver = str(java_cluster.nameserver.address)
    options = ConsumerOptions(nameserver=nameserver, group=f"responders-{topic}", topic=topic)
    (responder,) = java.ask(OPEN_RESPONDER, [options])
    try:
        with blocking.Producer("askers", nameserver=nameserver) as producer:
            assert producer.request(Message(topic, b"abc"), timeout_ms=20_000).body == b"cba"
    finally:
        java.ask(CLOSE_RESPONDER, [responder])
