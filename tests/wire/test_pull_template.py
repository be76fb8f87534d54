from orbitmq.wire.codes import RequestCode
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage
from orbitmq.wire.pull_template import PullTemplate


def header(queue_offset: int, max_msg_nums: int) -> PullMessage:
    return PullMessage(
        consumer_group="billing",
        topic="orders",
        queue_id=3,
        queue_offset=queue_offset,
        max_msg_nums=max_msg_nums,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


def test_a_template_writes_what_the_header_would() -> None:
    template = PullTemplate(header(0, 0))
    for queue_offset, count in ((41, 32), (73, 8), (41, 32)):  # what is filled in does not stay
        assert (
            template.fill(queue_offset, count).to_texts() == header(queue_offset, count).to_texts()
        )


def test_it_asks_what_the_header_asks() -> None:
    assert PullTemplate(header(0, 0)).fill(0, 1).code == RequestCode.PULL_MESSAGE
