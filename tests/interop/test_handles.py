"""Handles of popped and of delayed messages, ours and Java's, in both directions."""

from msgspec.structs import astuple

from orbitmq.message import ids, pop
from tests.interop.cases import Chance
from tests.interop.java import Java
from tests.interop.operations import (
    READ_POP_HANDLE,
    READ_RECALL_HANDLE,
    WRITE_POP_HANDLE,
    WRITE_RECALL_HANDLE,
    PopHandle,
    RecallHandle,
)

# What Java makes of each kind of retry for topic t and group g.
TOPICS = {pop.NORMAL: "t", pop.RETRY_V1: "%RETRY%g_t", pop.RETRY_V2: "%RETRY%g+t"}


def random_pop_handle(chance: Chance) -> PopHandle:
    return PopHandle(
        checkpoint_offset=chance.int64(),
        pop_time_ms=chance.int64(),
        invisible_ms=chance.int64(),
        revive_queue_id=chance.int32(),
        topic=chance.choice(list(TOPICS.values())),
        broker_name=chance.name(),
        queue_id=chance.int32(),
        queue_offset=chance.int64(),
    )


def ours(handle: PopHandle) -> pop.PopHandle:
    return pop.PopHandle(
        handle.checkpoint_offset,
        handle.pop_time_ms,
        handle.invisible_ms,
        handle.revive_queue_id,
        pop.retry_kind(handle.topic),
        handle.broker_name,
        handle.queue_id,
        handle.queue_offset,
    )


def test_pop_handles_agree(java_540: Java, chance: Chance) -> None:
    for handles in chance.several(lambda: random_pop_handle(chance)):
        texts = [str(ours(handle)) for handle in handles]
        assert java_540.ask(WRITE_POP_HANDLE, handles) == texts
        assert java_540.ask(READ_POP_HANDLE, texts) == handles
        assert [pop.PopHandle.parse(text) for text in texts] == [*map(ours, handles)]


def test_the_topic_behind_a_retry_agrees() -> None:
    assert {kind: pop.real_topic(kind, "t", "g") for kind in TOPICS} == TOPICS


def test_recall_handles_agree(java_540: Java, chance: Chance) -> None:
    def random_recall_handle() -> RecallHandle:
        time_ms = chance.integer(0, 2**63 - 1)
        return RecallHandle(chance.name(), chance.name(), time_ms, chance.randbytes(16).hex())

    for handles in chance.several(random_recall_handle):
        parts = [astuple(one) for one in handles]
        texts = [ids.recall_handle(*each) for each in parts]
        assert java_540.ask(WRITE_RECALL_HANDLE, handles) == texts
        assert java_540.ask(READ_RECALL_HANDLE, texts) == handles
        assert [tuple(ids.parse_recall_handle(text)) for text in texts] == parts
