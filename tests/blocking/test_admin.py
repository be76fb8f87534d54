from typing import Any

import pytest

from orbitmq import blocking
from orbitmq.client.admin import admin
from orbitmq.embedded import RunningCluster
from orbitmq.errors import AlreadyStarted, NoRoute, NotRunning
from orbitmq.message.model import Message


def test_an_admin_asks_about_topics_and_messages(
    cluster: RunningCluster, sender: blocking.Producer
) -> None:
    with blocking.Admin(nameserver=cluster.nameserver, keep_open_ms=0) as asking:
        assert asking.create_topic("asked", queues=2) == ("broker-a",)
        assert len(asking.queues("asked")) == 2
        receipt = sender.send(Message("asked", b"paid"))
        assert asking.max_offset(receipt.queue) == 1
        assert asking.view_message("asked", receipt.message_id).body == b"paid"
        with pytest.raises(AlreadyStarted):
            asking.start()
    with pytest.raises(NotRunning):
        asking.topics()
    with asking:
        assert "asked" in asking.topics()


def test_an_iteration_goes_on_over_batches_and_may_end_early(
    cluster: RunningCluster, sender: blocking.Producer
) -> None:
    with blocking.Admin(nameserver=cluster.nameserver, keep_open_ms=0) as asking:
        asking.create_topic("read", queues=1)
        sender.send_many([Message("read", b"%d" % number) for number in range(70)])
        assert [int(one.body) for one in asking.messages_between("read")] == list(range(70))
        some = asking.messages_between("read")
        assert next(some).body == b"0"
        some.close()
        assert asking.redrive_dead_letters(asking.dead_letters("nowhere")) == []
        with pytest.raises(NoRoute):
            next(asking.messages_between("nowhere"))
    with pytest.raises(NotRunning):
        next(asking.messages_between("read"))


def test_an_iteration_gives_what_it_found_before_its_error(
    cluster: RunningCluster, sender: blocking.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with blocking.Admin(nameserver=cluster.nameserver, keep_open_ms=0) as asking:
        asking.create_topic("half-read", queues=2)
        sender.send(Message("half-read", b"first"), queue=asking.queues("half-read")[0])
        pull = admin.Admin._pull

        async def fail_in_the_second(inner: admin.Admin, *given: Any) -> Any:
            if given[1].queue_id == 1:
                raise NotRunning("the broker is gone", state="closed")
            return await pull(inner, *given)

        monkeypatch.setattr(admin.Admin, "_pull", fail_in_the_second)
        found: list[bytes] = []
        with pytest.raises(NotRunning, match="the broker is gone"):
            found.extend(one.body for one in asking.messages_between("half-read"))
        assert found == [b"first"]
