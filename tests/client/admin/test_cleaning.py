import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import BrokerFailed, InvalidInput
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import BROKER_A, Scene


def test_a_clean_up_of_one_broker_is_one_request() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        where = str(BROKER_A)
        assert await admin.clean_expired_queues(on=where) == (where,)
        assert await admin.clean_unused_topics(on=where) == (where,)
        assert await admin.delete_expired_log_files(on=where) == (where,)
        scene.answer = lambda _request: Response(1, remark="on fire")
        with pytest.raises(BrokerFailed, match="on fire"):
            await admin.clean_expired_queues(on=where)
        with pytest.raises(InvalidInput):
            await admin.clean_expired_queues(on="broker:a:b")

    assert with_admin(story).codes(BROKER_A)[:3] == [
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ]
