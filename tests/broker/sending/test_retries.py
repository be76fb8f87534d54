import pytest

from orbitmq.broker.sending.retries import delay_level, max_tries
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.codes import ResponseCode
from tests.broker.send_world import SendWorld

NOW_VERSION = 493
BILLING = SubscriptionGroupConfig(group_name="billing", retry_queue_nums=2)


def test_a_retry_topic_is_made_with_the_queues_of_the_group() -> None:
    world = SendWorld()
    queues = {world.retries.retry(BILLING, unit_mode=False).queue_id for _ in range(50)}
    topic = world.topics.get("%RETRY%billing")
    assert topic is not None
    assert (topic.write_queue_nums, topic.read_queue_nums, topic.perm) == (2, 2, 6)
    assert queues == {0, 1}


def test_of_more_queues_than_the_retry_topic_has_those_are_used_that_can_be_read() -> None:
    world = SendWorld()
    world.retries.retry(BILLING, unit_mode=False)
    raised = SubscriptionGroupConfig(group_name="billing", retry_queue_nums=8)
    queues = {world.retries.retry(raised, unit_mode=False).queue_id for _ in range(50)}
    assert queues == {0, 1}


def test_units_mark_their_retry_topic() -> None:
    world = SendWorld()
    assert world.retries.retry(BILLING, unit_mode=True).topic.topic_sys_flag == 2


def test_a_retry_topic_without_write_permission_is_refused() -> None:
    world = SendWorld()
    world.create("%RETRY%billing", perm=4)
    with pytest.raises(Refusal, match=r"the topic\[%RETRY%billing\]") as refused:
        world.retries.retry(BILLING, unit_mode=False)
    assert refused.value.code == ResponseCode.NO_PERMISSION


def test_dead_letters_have_one_queue() -> None:
    world = SendWorld()
    dead = world.retries.dead_letter("billing")
    assert dead.is_dead
    assert (dead.topic.topic_name, dead.queue_id) == ("%DLQ%billing", 0)
    assert dead.topic.write_queue_nums == 1


@pytest.mark.parametrize(("times", "given_up"), [(0, False), (16, False), (17, True)])
def test_a_send_to_a_retry_topic_is_given_up_after_its_tries(times: int, given_up: bool) -> None:
    world = SendWorld()
    assert world.retries.is_given_up("%RETRY%billing", times, None, NOW_VERSION) is given_up


def test_the_client_may_say_how_often() -> None:
    world = SendWorld()
    assert world.retries.is_given_up("%RETRY%billing", 3, 2, NOW_VERSION)
    assert not world.retries.is_given_up("%RETRY%billing", 3, 3, NOW_VERSION)


def test_before_3_4_9_it_may_not() -> None:
    assert max_tries(BILLING, 2, version=120) == 16
    assert max_tries(BILLING, 2, version=121) == 2


def test_a_group_that_consumes_in_order_gives_up_at_once() -> None:
    world = SendWorld()
    world.ordered_groups.add("billing")
    assert world.retries.is_given_up("%RETRY%billing", 0, None, NOW_VERSION)


def test_an_unknown_group_is_refused_where_none_is_created() -> None:
    world = SendWorld(auto_create_subscription_group=False)
    with pytest.raises(Refusal, match="billing") as refused:
        world.retries.is_given_up("%RETRY%billing", 0, None, NOW_VERSION)
    assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_each_try_waits_a_level_more() -> None:
    assert [delay_level(0, times) for times in range(3)] == [3, 4, 5]
    assert delay_level(9, 2) == 9
