"""Groups are created, changed and deleted from a shell."""

import pytest

from tests.cli.operating.conftest import Shop


def settings(shop: Shop, group: str) -> dict[str, object]:
    found: dict[str, object] = shop.json(f"group show {group}")["settings"]["broker-a"]
    return found


def test_a_group_lives_and_dies(shop: Shop) -> None:
    assert shop.printed("group create made --retries 5 --ordered") == "made is on broker-a\n"
    assert settings(shop, "made")["retry_max_times"] == 5
    assert settings(shop, "made")["consume_message_orderly"] is True
    changed = shop.printed("group update made --no-consume --retry-queues 2")
    assert changed == "made is changed on broker-a\n"
    found = settings(shop, "made")
    assert (found["consume_enable"], found["retry_queue_nums"]) == (False, 2)
    assert found["retry_max_times"] == 5  # what was not named stays
    assert shop.printed("group delete made --offsets") == "made is deleted from broker-a\n"
    assert shop.ended("group show made")[0] == 2


def test_create_replaces_all_settings(shop: Shop) -> None:
    shop.printed("group create again --retries 5")
    shop.printed("group create again --on DefaultCluster")
    assert settings(shop, "again")["retry_max_times"] == 16


def test_what_was_done_as_json(shop: Shop) -> None:
    found = shop.json("group create told --retries 2 --no-broadcast")
    assert found == {
        "group": "told",
        "brokers": ["broker-a"],
        "retry_max_times": 2,
        "consume_broadcast_enable": False,
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("group update billing", "no setting is given"),
        ("group update nobody --retries 1", "no broker has group nobody"),
        ("group delete nobody", "no broker has group nobody"),
        ("group create billing --retries -1", "--retries is -1; it must be 0 or more"),
        ("group create billing --retries many", "--retries is 'many'; it must be a number"),
        ("group create 'a b'", "a b"),
        ("group create x --on nowhere", "no cluster and no broker is named nowhere"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
