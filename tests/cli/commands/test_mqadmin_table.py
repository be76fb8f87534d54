"""Each command becomes one that ours takes, and the page about it is true."""

import argparse
import re

import pytest

from orbitmq.cli.commands.mqadmin import translated
from orbitmq.cli.commands.mqadmin_table import LIKES, Like
from orbitmq.cli.main import parser
from tests.architecture.sources import ROOT

VALUES = {
    "perm": "6",
    "order": "true",
    "attributes": "+message.type=FIFO,+a=b",
    "ipList": "10.0.0.1,10.0.0.2",
    "brokerControllerIdsToClean": "1;2",
    "timestamp": "2026-11-15#09:30:00:000",
    "beginTimestamp": "1794735000000",
    "endTimestamp": "2026-11-15#09:30:00:000",
    "removeOffset": "false",
    "subExpression": "paid || late",
}
NUMBERS = {
    *("readQueueNums", "writeQueueNums", "amount", "size", "retryQueueNums", "retryMaxTimes"),
    *("whichBrokerWhenConsumeSlowly", "maxNum", "queueId", "queue", "qid", "offset"),
    *("MessageNumber", "brokerId"),
}
SWITCHES = {"consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable"} | {
    "consumeMessageOrderly",
    "notifyConsumerIdsChanged",
}
APART = {"consumeMessage": {"g"}, "resetOffsetByTime": {"o"}}
"""Flags that exclude others."""


def value(name: str) -> str:
    if name in SWITCHES:
        return "false"
    return VALUES.get(name, "4" if name in NUMBERS else "it")


def words(like: Like, *, needed_alone: bool) -> list[str]:
    found = [like.name, "-n", "ns:9876"]
    for flag in like.flags:
        if flag.refused or flag.letter in APART.get(like.name, ()):
            continue
        if flag.is_needed or not needed_alone:
            found += [f"--{flag.name}", value(flag.name)] if flag.has_value else [f"-{flag.letter}"]
    return found


def test_at_least_thirty_commands_are_accepted() -> None:
    assert len(LIKES) >= 30


@pytest.mark.parametrize("like", LIKES.values(), ids=LIKES)
@pytest.mark.parametrize("needed_alone", [True, False])
def test_ours_takes_what_each_becomes(like: Like, needed_alone: bool) -> None:
    given = words(like, needed_alone=needed_alone)
    if (like.name, needed_alone) == ("resetOffsetByTime", True):
        given += ["-s", "now"]
    ours = translated(given)
    parsed = parser(ours[0]).parse_args(ours)
    assert parsed.nameserver == "ns:9876"
    assert " ".join(ours).startswith(like.ours)


def test_the_table_of_the_docs_names_commands_that_exist() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    lines = [line for line in page.splitlines() if line.count("|") == 6][2:]
    rows = [line.strip("|").split("|") for line in lines]
    javas = {name for row in rows for name in re.findall(r"`([a-z]+[A-Z]\w+)", row[3])}
    assert len(javas) > 15
    assert javas <= set(LIKES)
    typed = [text for row in rows for text in re.findall(r"`([a-z][^`]*)`", row[4])]
    assert len(typed) > 25
    for text in typed:
        command, options = leaf(parser(text.split()[0]), text.split())
        assert command.get_default("run"), text
        assert options <= set(command._option_string_actions), text


def leaf(
    command: argparse.ArgumentParser, words: list[str]
) -> tuple[argparse.ArgumentParser, set[str]]:
    """Return the command that words lead to, and the long options among them."""
    families = [one for one in command._actions if isinstance(one, argparse._SubParsersAction)]
    if families and words and words[0] in families[0].choices:
        return leaf(families[0].choices[words[0]], words[1:])
    return command, {word for word in words if word.startswith("--")}
