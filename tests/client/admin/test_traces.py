import asyncio

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.observe.trace_timeline import TraceStep
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import NotFound, OrbitError
from orbitmq.message.model import Message
from tests.client.admin_story import soon


def test_a_send_of_our_producer_is_found_by_id_and_by_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with (
            EmbeddedCluster() as cluster,
            Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin,
        ):
            await admin.create_topic("orders")
            async with Producer("billing", nameserver=cluster.nameserver, trace=True) as producer:
                message = Message("orders", b"paid", tags="t", keys=["o-42"])
                sent = await producer.send(message)
            found = await soon(lambda: admin.traces_by_key("o-42"), "the report in the index")
            trace = await admin.message_trace(sent.message_id)
            assert found == [trace]
            assert (trace.topic, trace.tags, trace.keys) == ("orders", "t", ("o-42",))
            steps = [(one.step, one.group, one.is_estimated) for one in trace.events]
            assert steps == [(TraceStep.SENT, "billing", False), (TraceStep.STORED, "", False)]
            with pytest.raises(NotFound):
                await admin.message_trace("o-42")

            async def gone(*_names: str) -> None:
                raise OrbitError("gone")

            monkeypatch.setattr(admin, "view_message", gone)
            assert (await admin.message_trace(sent.message_id)).events[1].is_estimated

    asyncio.run(main())
