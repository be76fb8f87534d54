"""The history of a message from a shell."""

import pytest

from orbitmq.cli.operating.trace import trace_lines, track_lines
from orbitmq.client.admin.tracks import MessageTrack, TrackType
from orbitmq.client.observe.trace_timeline import MessageTrace, TraceEvent, TraceStep
from orbitmq.message.trace import ConsumeOutcome, MessageKind
from tests.cli.operating.conftest import Shop
from tests.cli.terminal import utc
from tests.interop.waiting import until

TRACE = """\
Message    7F01
Topic      orders
Tags       paid
Keys       o-42 c-7
Body       4 B, committed

TIME          WHAT                 GROUP    AT               AFTER   TOOK
10:42:09.000  sent                 shop     10.0.0.9:40000       -  12 ms
10:42:09.006  stored, estimated    -        10.0.0.7:10911    6 ms      -
10:42:09.020  commit               shop     10.0.0.9:40000   20 ms      -
10:42:09.500  delivered again (1)  billing  10.0.0.8:40001  494 ms      -
10:42:10.000  exception            billing  10.0.0.8:40001  500 ms   1 ms
"""
AT_MS = 1_794_739_329_000


def test_a_history_fits_a_terminal() -> None:
    shop, billing = ("shop", "10.0.0.9:40000"), ("billing", "10.0.0.8:40001")

    def event(step: TraceStep, after_ms: int, who: tuple[str, str], **fields: object) -> TraceEvent:
        return TraceEvent(
            step=step,
            at_ms=AT_MS + after_ms,
            group=who[0],
            client_host=who[1],
            **fields,  # type: ignore[arg-type]
        )

    trace = MessageTrace(
        message_id="7F01",
        topic="orders",
        tags="paid",
        keys=("o-42", "c-7"),
        kind=MessageKind.COMMITTED,
        body_length=4,
        events=(
            event(TraceStep.SENT, 0, shop, cost_ms=12),
            event(TraceStep.STORED, 6, ("", "10.0.0.7:10911"), latency_ms=6, is_estimated=True),
            event(
                TraceStep.TRANSACTION_ENDED,
                20,
                shop,
                latency_ms=20,
                transaction_state="COMMIT_MESSAGE",
            ),
            event(TraceStep.DELIVERED, 500, billing, latency_ms=494, reconsume_times=1),
            event(
                TraceStep.CONSUMED,
                1000,
                billing,
                latency_ms=500,
                cost_ms=1,
                is_success=False,
                outcome=ConsumeOutcome.EXCEPTION,
            ),
        ),
    )
    with utc():
        shown = "".join(f"{line}\n" for line in trace_lines(trace))
    assert shown == TRACE


def test_groups_and_what_is_known_of_them() -> None:
    tracks = [
        MessageTrack(group="billing", type=TrackType.CONSUMED),
        MessageTrack(group="audit", type=TrackType.NOT_ONLINE, remark="none is connected"),
    ]
    assert track_lines(tracks) == [
        "GROUP    STATE       REMARK",
        "billing  consumed",
        "audit    not online  none is connected",
    ]
    assert track_lines([]) == ["no group has an offset in the topic, or is subscribed to it"]


def test_a_message_is_traced(shop: Shop) -> None:
    line = f"trace {shop.message_id}"
    until(lambda: shop.ended(line)[0] == 0, what="the producer has reported")
    printed = shop.printed(f"{line} --topic orders")
    assert printed.startswith(f"Message    {shop.message_id}\nTopic      orders\nTags       paid\n")
    assert [row.split()[1] for row in printed.splitlines()[7:9]] == ["sent", "stored"]
    assert ["billing", "not", "online"] in [row.split()[:3] for row in printed.splitlines()]
    found = shop.json(f"{line} --topic orders")
    (trace,) = found["traces"]
    assert [one["step"] for one in trace["events"]] == ["sent", "stored"]
    assert (trace["kind"], trace["events"][0]["group"]) == ("NORMAL", "shop")
    assert {"group": "billing", "type": "NOT_ONLINE"}.items() <= found["groups"][0].items()


def test_messages_are_traced_by_key(shop: Shop) -> None:
    until(lambda: shop.ended("trace --key o-0")[0] == 0, what="the producer has reported")
    (trace,) = shop.json("trace --key o-0 --begin 1h")["traces"]
    assert trace["message_id"] == shop.message_id
    shop.ended("trace --key o-0 --end 2020-01-01")
    assert shop.output == ""


def test_an_unknown_message(shop: Shop) -> None:
    status, said = shop.ended("trace 7F00")
    assert (status, said.count("\n"), shop.output) == (1, 1, "")
    assert "has no trace of 7F00; check that its producer and its consumers trace" in said
    status, _ = shop.ended("trace 7F00 --json")
    assert (status, shop.output) == (1, '{\n  "traces": []\n}\n')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trace", "give either the ID of a message or --key"),
        ("trace 7F00 --key k", "give either the ID of a message or --key"),
        ("trace --key k --topic orders", "--topic is for one message"),
        ("trace 7F00 --begin soon", "'soon' is not a time"),
        ("trace 7F00 --trace-topic nowhere", "topic nowhere is missing"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
