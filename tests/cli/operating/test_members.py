"""Connected clients from a shell."""

import time

import pytest

from orbitmq.blocking import Producer
from orbitmq.cli.operating.members import running_lines
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.running import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo
from orbitmq.wire.json.queue_map import QueueMap
from tests.cli.operating.conftest import Shop, a_member
from tests.cli.terminal import utc

RUNNING = """\
Member     10.0.0.7@4711
Started    2026-11-15 10:42:09

TOPIC   QUEUE       COMMITTED  BUFFERED  MIB       LAST PULL
orders  broker-a/3         42        17    1  11-15 10:42:09

TOPIC   PULLED/S  CONSUMED/S  FAILED/S  MS EACH
orders      12.0        10.5       0.5      3.2

"main" at work
"""
AT_MS = 1_794_739_329_000


def test_members_and_subscriptions_are_shown(shop: Shop) -> None:
    with a_member(shop) as client_id:
        printed = shop.printed("group members watchers")
        found = shop.json("group members watchers")
    assert "Subscribed orders: paid || open\n" in printed
    assert client_id in printed
    assert [one["client_id"] for one in found["members"]] == [client_id]
    assert found["subscriptions"]["orders"] == "paid || open"


def test_a_member_says_what_it_is_doing(shop: Shop) -> None:
    with a_member(shop) as client_id:
        printed = shop.printed(f"group members watchers --client {client_id}")
        found = shop.json(f"group members watchers --client {client_id} --stack")
    assert printed.startswith(f"Member     {client_id}\nStarted    ")
    assert "orders" in {one["topic"] for one in found["queues"]}
    assert found["stack"]
    now_ms = time.time() * 1000
    assert all(one["last_pull_timestamp"] <= now_ms + 1000 for one in found["queues"])


def test_all_producers_or_those_of_a_group(shop: Shop) -> None:
    with Producer("cashiers", nameserver=shop.nameserver) as producer:
        found = shop.json("group producers")
        assert "cashiers" in found
        printed = shop.printed("group producers cashiers --topic orders")
        assert printed.startswith("1 producer in 1 group\n\nGroup      cashiers\n")
        assert producer.client_id in printed
        assert producer.client_id in shop.printed("group producers")


def test_what_a_consumer_says_fits_a_terminal() -> None:
    info = ConsumerRunningInfo(
        properties={"PROP_CONSUMER_START_TIMESTAMP": str(AT_MS)},
        mq_table=QueueMap(
            {
                MessageQueue("orders", "broker-a", 3): ProcessQueueInfo(
                    commit_offset=42,
                    cached_msg_count=17,
                    cached_msg_size_in_mib=1,
                    last_pull_timestamp=AT_MS,
                )
            }
        ),
        status_table={
            "orders": ConsumeStatus(
                pull_tps=12, consume_ok_tps=10.5, consume_failed_tps=0.5, consume_rt=3.2
            )
        },
        jstack='"main" at work',
    )
    with utc():
        shown = list(running_lines("10.0.0.7@4711", info))
    assert "".join(f"{line}\n" for line in shown) == RUNNING


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("group members billing", "no consumer of group billing is connected"),
        ("group members billing --stack", "--stack needs --client"),
        ("group members billing --client x", "no consumer of group billing is connected"),
        ("group producers shop", "give both GROUP and --topic"),
        ("group producers --topic orders", "give both GROUP and --topic"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
