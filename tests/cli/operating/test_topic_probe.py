from orbitmq.cli.operating.topic_probe import Probe, probe_lines
from tests.cli.operating.conftest import QUEUES, Shop

PROBED = """\
QUEUE       STORED  FAILED  LEAST MS  MEDIAN MS  MOST MS
broker-a/0       3       0         1          2       40
broker-a/1       0       1         -          -        -

the disk is full
"""


def test_a_probe_sends_to_each_queue(shop: Shop) -> None:
    shop.printed("topic create probed --queues 2")
    printed = shop.printed("topic probe probed --count 3 --size 10").splitlines()
    assert [row.split()[:3] for row in printed[1:]] == [
        ["broker-a/0", "3", "0"],
        ["broker-a/1", "3", "0"],
    ]
    found = shop.json("topic probe probed --count 1")
    assert [(one["queue_id"], one["problem"]) for one in found] == [(0, None), (1, None)]
    assert shop.json("topic show probed")["messages"] == 8


def test_a_probe_that_fails(shop: Shop) -> None:
    shop.printed("topic create too-small")
    status, _ = shop.ended("topic probe too-small --count 1 --size 9000000")
    assert status == 1
    assert shop.output.endswith("\n\nbody has 9000000 bytes, the limit is 4194304\n")


def test_a_probe_is_told_by_queue() -> None:
    took = [Probe(queue=QUEUES[0], took_ms=ms) for ms in (1, 40, 2)]
    failed = Probe(queue=QUEUES[1], took_ms=3000, problem="the disk is full")
    lines = probe_lines([*took, failed])
    assert "".join(f"{line}\n" for line in lines) == PROBED
