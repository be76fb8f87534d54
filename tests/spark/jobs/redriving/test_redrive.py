"""Chosen dead letters are sent once more, and never twice."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import StoredMessage, embedded
from orbitmq.blocking import Admin
from orbitmq.client.admin.dead_letters import DeadLetter
from orbitmq.errors import OrbitError
from orbitmq.spark.jobs.dead_letters import read_letters
from orbitmq.spark.jobs.redriving.redrive import chosen_ids, dead_letter_topics, redrive
from orbitmq.spark.jobs.sources import Topics, admin_of
from tests.interop.waiting import until
from tests.spark.jobs.dead_letter_story import SENT, die

WHERE = "topic = 'orders' AND tags = 'paid' AND age_hours < 1"
PAID = [one for one in SENT if one.topic == "orders" and one.tags == "paid"]

Scene = tuple[Admin, Topics, list[DeadLetter]]


@pytest.fixture
def scene() -> Iterator[Scene]:
    with embedded.start() as cluster:
        letters = die(cluster.nameserver, "billing")
        source = Topics(cluster.nameserver, ("%DLQ%billing",))
        with admin_of(source) as admin:
            yield admin, source, letters


def now_ms(letters: list[DeadLetter]) -> int:
    return max(one.message.store_timestamp_ms for one in letters)


def copies(admin: Admin, topic: str) -> list[StoredMessage]:
    return [one for one in admin.messages_between(topic) if "REDRIVEN_FROM" in one.properties]


def found_by_id(admin: Admin, letters: list[DeadLetter], chosen: list[tuple[str, str]]) -> None:
    """Wait until the key index has the copies, which follows a send."""
    ids = {one for _, one in chosen}
    for letter in letters:
        if letter.id in ids:
            until(lambda one=letter: admin.redriven_copies(one) or None, what="the index")  # type: ignore[misc]


def test_a_dry_run_a_limit_and_a_repeated_re_drive(spark: SparkSession, scene: Scene) -> None:
    admin, source, letters = scene
    assert dead_letter_topics(admin) == dead_letter_topics(admin, ("billing", "x")) == source.names
    assert dead_letter_topics(admin, ("x",)) == ()
    frame = read_letters(spark, source, now_ms=now_ms(letters))
    chosen = chosen_ids(frame, WHERE)
    died = [one for one in letters if one.message.tags == "paid" and one.origin_topic == "orders"]
    died.sort(key=lambda one: (one.message.store_timestamp_ms, one.id))
    assert chosen == [("billing", one.id) for one in died]
    assert len(chosen) == len(PAID)
    assert chosen_ids(frame, WHERE, max_letters=3) == chosen[:3]

    planned = redrive(admin, chosen, dry_run=True)
    assert (planned.sent, planned.is_dry_run) == (len(PAID), True)
    assert copies(admin, "%RETRY%billing") == []

    first = redrive(admin, chosen[:3])
    assert (first.sent, first.repeated, first.topics) == (3, 0, {"%RETRY%billing": 3})
    found_by_id(admin, letters, chosen[:3])
    planned = redrive(admin, chosen, dry_run=True)
    assert (planned.sent, planned.repeated) == (len(PAID) - 3, 3)
    seen: list[tuple[int, int]] = []
    rest = redrive(admin, chosen, progress=lambda done, total: seen.append((done, total)))
    assert (rest.sent, rest.repeated, rest.left) == (len(PAID) - 3, 3, 0)
    assert seen[-1] == (len(PAID), len(PAID))
    found_by_id(admin, letters, chosen)
    again = redrive(admin, chosen)
    assert (again.sent, again.repeated) == (0, len(PAID))

    stored = copies(admin, "%RETRY%billing")
    by_key = {one.keys[0]: one for one in PAID}
    assert sorted(one.keys[0] for one in stored) == sorted(by_key)
    for copy in stored:
        message = by_key[copy.keys[0]]
        assert (copy.body, copy.tags) == (message.body, message.tags)
        assert message.properties.items() <= copy.properties.items()
        assert copy.properties["RETRY_TOPIC"] == "orders"
    assert {copy.properties["REDRIVEN_FROM"] for copy in stored} == {one for _, one in chosen}
    assert {copy.message_id for copy in stored} == {one.message.message_id for one in died}


def test_to_the_topic_and_what_can_not_be_re_driven(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, _, letters = scene
    ids = [("billing", one.id) for one in letters]
    gone = letters[0].id[:16] + "0000000000FFFFFF"
    done = redrive(admin, [ids[0], ("billing", gone), ("strangers", gone), ids[1]], to="origin")
    assert (done.sent, len(done.refused), done.stopped) == (2, 2, "")
    assert {one.id for one in done.refused} == {gone}
    assert "strangers" in done.refused[1].reason
    origin = {letters[number].origin_topic for number in (0, 1)}
    assert done.topics.keys() == origin
    assert sum(len(copies(admin, topic)) for topic in origin) == 2

    really = admin.redrive_dead_letters

    def cut(chosen: list[DeadLetter], **options: Any) -> Any:
        if chosen[0].id == ids[3][1]:
            raise OrbitError("the cable is cut")
        return really(chosen, **options)

    monkeypatch.setattr(admin, "redrive_dead_letters", cut)
    stopped = redrive(admin, ids[2:6])
    assert (stopped.sent, stopped.left) == (1, 3)
    assert stopped.stopped == f"{ids[3][1]}: the cable is cut"
