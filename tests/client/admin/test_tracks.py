import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.consumers import ConsumerConnections
from orbitmq.client.admin.tracks import TrackType
from orbitmq.errors import BrokerFailed, NoRoute
from orbitmq.message.model import Host, StoredMessage
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from orbitmq.wire.bodies.stats import ConsumeStats
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import BROKER_A, Scene


def stored(host: str = str(BROKER_A)) -> StoredMessage:
    where = Host.parse(host)
    return StoredMessage(
        topic="orders",
        body=b"x",
        properties={"TAGS": "paid"},
        queue_id=0,
        queue_offset=4,
        commit_log_offset=0,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=0,
        born_host=where,
        store_timestamp_ms=0,
        store_host=where,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=0,
    )


def connected(kind: ConsumeType | None, model: MessageModel) -> ConsumerConnections:
    return ConsumerConnections(
        group="billing",
        clients=(),
        consume_type=kind,
        message_model=model,
        consume_from=None,
        subscriptions={"orders": SubscriptionData(topic="orders")},
    )


@pytest.mark.parametrize(
    ("kind", "model", "track"),
    [
        (ConsumeType.CONSUME_ACTIVELY, MessageModel.CLUSTERING, TrackType.PULL),
        (
            *(ConsumeType.CONSUME_PASSIVELY, MessageModel.BROADCASTING),
            TrackType.CONSUME_BROADCASTING,
        ),
        (ConsumeType.CONSUME_POP, MessageModel.CLUSTERING, TrackType.UNKNOWN),
        (None, MessageModel.CLUSTERING, TrackType.UNKNOWN),
        (ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, TrackType.NOT_CONSUME_YET),
    ],
)
def test_the_kind_of_a_group_decides_what_can_be_known(
    kind: ConsumeType | None, model: MessageModel, track: TrackType
) -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(body=ConsumeStats().to_json())
        brokers = await admin._masters("orders")
        assert await admin._kind(stored(), connected(kind, model), brokers) is track

    with_admin(story)


def test_a_message_of_an_unknown_broker_has_no_offset() -> None:
    async def story(_scene: Scene, admin: Admin) -> None:
        brokers = await admin._masters("orders")
        with pytest.raises(NoRoute, match=r"10\.9\.9\.9:1, where the message is stored"):
            await admin._consumer_offset(stored("10.9.9.9:1"), "billing", brokers)

    with_admin(story)


def test_what_goes_wrong_with_one_group_is_its_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(_scene: Scene, admin: Admin) -> None:
        async def fail(_group: str) -> ConsumerConnections:
            raise BrokerFailed(1, "on fire")

        monkeypatch.setattr(admin, "consumer_connections", fail)
        track = await admin._track(stored(), "billing", {})
        assert (track.type, "on fire" in track.remark) == (TrackType.UNKNOWN, True)

    with_admin(story)
