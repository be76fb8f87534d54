"""A master without replicas says so."""

from orbitmq.broker.handlers.operator.replicas import ReplicaHandlers
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import ResetMasterFlushOffset
from tests.broker.world import World, ask


def test_the_status_is_that_of_a_lone_master() -> None:
    world = World()
    world.put("orders", count=3)
    lone = HARuntimeInfo(master=True, master_commit_log_max_offset=world.store.log.end)
    table = ReplicaHandlers(status=lambda: lone).table()
    answer = ask(table, NoFields(), code=RequestCode.GET_BROKER_HA_STATUS)
    assert HARuntimeInfo.from_json(answer.body) == lone


def test_a_master_has_no_flushed_offset_of_another_and_no_epochs() -> None:
    table = ReplicaHandlers(status=HARuntimeInfo).table()
    assert ask(table, ResetMasterFlushOffset(master_flush_offset=1)).code == ResponseCode.SUCCESS
    refused = ask(table, NoFields(), code=RequestCode.GET_BROKER_EPOCH_CACHE)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert (refused.remark or "").startswith("this request only for controllerMode ")
