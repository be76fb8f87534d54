from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.sending.trace_sends import TraceSends
from orbitmq.client.settings import ProducerSettings
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.message.trace import Recall, decode
from tests.client.post import open_post
from tests.client.scene import Scene, play, route


def test_reports_are_sent_by_a_group_of_their_own() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        scene.routes[TRACE_TOPIC] = route("a", queues=1)
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        sends = TraceSends(core, ProducerSettings("billing", trace_batch_max=2), "CONSUME")
        record = Recall(
            timestamp_ms=5, region="eu", group="g", topic="t", message_id="7F01", success=True
        )
        sends.reporter.add("orders", "eu", record)
        await sends.close(1_000)
        (sent,) = post.sent
        assert sent.header.producer_group == "_INNER_TRACE_PRODUCER-billing-CONSUME"
        assert decode(sent.body) == [record]
        assert sends.reporter.sent == 1
        assert sends.new_id() != sends.new_id()
        await core.release()

    play(story)
