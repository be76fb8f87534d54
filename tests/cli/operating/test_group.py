"""Groups from a shell."""

from orbitmq.cli.operating.group import progress_lines, settings_text, show_lines
from orbitmq.client.admin.results import GroupProgress, QueueProgress
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from tests.cli.operating.conftest import Shop, a_member
from tests.cli.terminal import utc

SHOWN = """\
Group      billing
On         broker-a: 3 retries, 1 retry queue
Lag        3 messages; 0.0 per second
Members    none is connected

TOPIC   SUBSCRIPTION  QUEUES  LAG
orders  -                  2    3
"""


def test_groups_are_listed(shop: Shop) -> None:
    listed = shop.json("group list")
    assert {"group": "billing", "brokers": ["broker-a"]} in listed
    assert "TOOLS_CONSUMER" not in {one["group"] for one in listed}
    assert "TOOLS_CONSUMER" in {one["group"] for one in shop.json("group list --all")}
    head, *rows = shop.printed("group list").splitlines()
    assert head.split() == ["GROUP", "BROKERS"]
    assert ["billing", "broker-a"] in [row.split() for row in rows]


def test_the_list_tells_members_and_lag(shop: Shop) -> None:
    with a_member(shop):
        found = {one["group"]: one for one in shop.json("group list --lag")}
        assert (found["billing"]["members"], found["billing"]["lag"]) == (0, 3)
        assert found["watchers"]["members"] == 1
        rows = [row.split() for row in shop.printed("group list --lag").splitlines()]
    assert ["billing", "0", "3", "0.0"] in rows


def test_a_group_is_shown(shop: Shop) -> None:
    assert shop.printed("group show billing") == SHOWN
    found = shop.json("group show billing")
    assert found["settings"]["broker-a"]["retry_max_times"] == 3
    assert (found["members"], found["lag"]) == ([], 3)
    assert found["topics"] == [{"topic": "orders", "lag": 3}]


def test_a_group_with_a_member_has_its_subscription(shop: Shop) -> None:
    with a_member(shop) as client_id:
        printed = shop.printed("group show watchers")
    assert "Members    1 consumer, clustering\n" in printed
    assert client_id in printed
    assert "PYTHON" in printed


def test_progress_is_told_by_queue(shop: Shop) -> None:
    head, first, second, _, total = shop.printed("group progress billing").splitlines()
    assert head.split()[:6] == ["TOPIC", "QUEUE", "END", "COMMITTED", "LAG", "PULLED"]
    assert first.split()[:6] == ["orders", "broker-a/0", "4", "4", "0", "0"]
    assert second.split()[:5] == ["orders", "broker-a/1", "4", "1", "3"]
    assert total == "billing is 3 messages behind in 2 queues; 0.0 per second"
    found = shop.json("group progress billing --topic orders")
    assert [one["lag"] for one in found["queues"]] == [0, 3]
    assert found["queues"][0]["broker_name"] == "broker-a"


def test_scripts_can_ask_whether_it_is_too_far_behind(shop: Shop) -> None:
    shop.printed("group progress billing --max-lag 3", status=0)
    shop.printed("group progress billing --max-lag 2", status=1)


def test_a_misspelled_group_is_an_error(shop: Shop) -> None:
    for command in ("show", "progress"):
        status, said = shop.ended(f"group {command} bililng")
        assert (status, said.count("\n")) == (2, 1)
        assert "no broker has group bililng" in said


def test_long_names_fit_a_terminal() -> None:
    queue = MessageQueue("a-rather-long-topic-of-orders", "the-billing-broker-of-paris", 12)
    one = QueueProgress(queue, 9_000_000_000, 8_999_999_000, 8_999_999_200, 1_794_739_329_000)
    with utc():
        lines = list(progress_lines(GroupProgress("billing", (one,), 12.5)))
    assert max(map(len, lines)) == 80
    assert lines[1].split()[2:] == ["9000000000", "8999999000", "1000", "200", "11-15", "10:42:09"]
    assert lines[-1] == "billing is 1,000 messages behind in 1 queue; 12.5 per second"


def test_settings_that_matter_are_told() -> None:
    config = SubscriptionGroupConfig(
        retry_max_times=1,
        retry_queue_nums=2,
        consume_message_orderly=True,
        consume_broadcast_enable=False,
        consume_enable=False,
    )
    text = "1 retry, 2 retry queues, ordered, no broadcasting, consuming is off"
    assert settings_text(config) == text


def test_brokers_with_the_same_settings_share_a_line() -> None:
    same = SubscriptionGroupConfig()
    other = SubscriptionGroupConfig(retry_max_times=1)
    settings = {"broker-a": same, "broker-b": same, "broker-c": other}
    lines = list(show_lines(settings, None, GroupProgress("billing", (), 0.0)))
    assert lines[1:3] == [
        "On         broker-a, broker-b: 16 retries, 1 retry queue",
        "On         broker-c: 1 retry, 1 retry queue",
    ]
