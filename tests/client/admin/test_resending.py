import asyncio

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.resending import DirectConsumption
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import ConsumerNotOnline, InvalidTopic, NoRoute, NotFound
from orbitmq.message.model import Message
from orbitmq.wire.bodies.running import CMResult


def test_a_copy_keeps_what_the_user_gave_and_nothing_of_its_first_way() -> None:
    async def main() -> None:
        async with (
            EmbeddedCluster() as cluster,
            Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin,
            Producer("billing", nameserver=cluster.nameserver) as producer,
        ):
            await admin.create_topic("orders")
            await admin.create_topic("others", queues=1)
            body = b"paid" * 5_000
            message = Message(
                "orders",
                body,
                tags="t",
                keys=["a", "b"],
                properties={"colour": "blue"},
                flag=7,
                sharding_key="s",
            )
            sent = await producer.send(message)
            copy = await admin.republish_message("orders", sent.offset_message_id, to="others")
            assert copy.queue.topic == "others"
            found = await admin.view_message("others", copy.offset_message_id)
            first = await admin.view_message("orders", sent.offset_message_id)
            assert (found.body, found.tags, found.keys, found.flag) == (body, "t", ("a", "b"), 7)
            assert found.user_properties == {"colour": "blue"}
            assert found.sharding_key == "s"
            assert found.born_timestamp_ms == first.born_timestamp_ms
            assert found.message_id == copy.message_id != sent.message_id
            assert found.store_size < len(body)
            with pytest.raises(NotFound):
                await admin.republish_message("orders", "0" * 32)
            with pytest.raises(NoRoute):
                await admin.republish_message("orders", sent.offset_message_id, to="nowhere")
            with pytest.raises(InvalidTopic):
                await admin.republish_message(
                    "orders", sent.offset_message_id, to="SCHEDULE_TOPIC_XXXX"
                )
            with pytest.raises(ConsumerNotOnline, match="no consumer of group nobody"):
                await admin.resend_message("orders", sent.offset_message_id, group="nobody")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("result", "is_consumed"),
    [(CMResult.CR_SUCCESS, True), (CMResult.CR_COMMIT, True), (CMResult.CR_LATER, False)],
)
def test_a_listener_succeeded_or_not(result: CMResult, is_consumed: bool) -> None:
    outcome = DirectConsumption(
        client_id="c", result=result, cost_ms=1, remark=None, is_ordered=False, auto_commit=True
    )
    assert outcome.is_consumed is is_consumed
