import pytest
from msgspec.structs import replace

from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.message import properties
from orbitmq.message.ids import parse_recall_handle
from orbitmq.message.names import TIMER_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.randomness import SeededRandomness
from orbitmq.store.settings import StoreSettings
from orbitmq.wire.codes import ResponseCode
from tests.broker.world import HandClock
from tests.store.logs import NOW

DAY_MS = 86_400_000


def rules(store: StoreSettings | None = None, *, in_slot: int = 0) -> TimerRules:
    return TimerRules(
        settings=LiveSettings(BrokerSettings(), store),
        clock=HandClock(),
        randomness=SeededRandomness(7),
        in_slot=lambda _: in_slot,
    )


@pytest.mark.parametrize(
    ("given", "out_ms"),
    [
        ({"TIMER_DELAY_MS": "2500"}, NOW + 2_000),
        ({"TIMER_DELAY_MS": "2000"}, NOW + 1_000),  # the slot before: it has passed at 2000
        ({"TIMER_DELAY_MS": "+1"}, NOW),
        ({"TIMER_DELAY_SEC": "3"}, NOW + 2_000),
        ({"TIMER_DELIVER_MS": str(NOW + 7_001)}, NOW + 7_000),
        ({"TIMER_DELIVER_MS": str(NOW + 1), "TIMER_DELAY_SEC": "9"}, NOW + 8_000),
        ({"TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "9"}, NOW + 8_000),
        ({"TIMER_DELAY_MS": "3001", "TIMER_DELIVER_MS": "1"}, NOW + 3_000),
        ({"TIMER_DELAY_MS": str(3 * DAY_MS)}, NOW + 3 * DAY_MS - 1_000),
    ],
)
def test_a_message_waits_in_the_slot_before_its_time(given: dict[str, str], out_ms: int) -> None:
    found = dict(given)
    assert rules().place(found, "orders", 3) == (TIMER_TOPIC, 0)
    assert found == {
        **given,
        "TIMER_OUT_MS": str(out_ms),
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELAY_MS": "-5"},
        {"TIMER_DELAY_SEC": str(-(2**63) + 1)},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "1"},
        {"TIMER_DELIVER_MS": "-1"},
        {"TIMER_DELAY_MS": "5000", "TIMER_OUT_MS": "1"},  # it was delivered by a timer before
    ],
)
def test_without_a_time_or_with_one_that_has_passed_it_is_delivered_at_once(
    given: dict[str, str],
) -> None:
    found = dict(given)
    assert rules().place(found, "orders", 3) == ("orders", 3)
    assert found == given


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"TIMER_DELAY_MS": str(3 * DAY_MS + 1)}, "the delay is longer"),
        ({"TIMER_DELAY_MS": str(2**63 - 1)}, "the delay is longer"),
        ({"TIMER_DELAY_SEC": str(2**63 - 1)}, "the delay is longer"),
        ({"TIMER_DELIVER_MS": str(2**63 - 1)}, "the delay is longer"),
        ({"TIMER_DELIVER_MS": str(2**63)}, "not a number of this size"),
        ({"TIMER_DELAY_MS": "9" * 500}, "not a number of this size"),
        ({"TIMER_DELAY_SEC": "soon"}, "TIMER_DELAY_SEC is 'soon'"),
        ({"TIMER_DELAY_MS": "1.5"}, "TIMER_DELAY_MS is '1.5'"),
        ({"TIMER_DELAY_MS": "٣"}, "TIMER_DELAY_MS"),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "U1"}, "too late for a recall"),
    ],
)
def test_what_java_finds_illegal_is_refused(given: dict[str, str], word: str) -> None:
    with pytest.raises(Refusal, match="^timer message illegal, .* max delay 259200000ms") as caught:
        rules().place(dict(given), "orders", 0)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert word in str(caught.value.remark)


def test_the_precision_and_the_longest_delay_are_settings() -> None:
    found = {"TIMER_DELAY_MS": "2550"}
    finer = rules(StoreSettings(timer_precision_ms=100, timer_max_delay_s=60))
    finer.place(found, "orders", 0)
    assert found["TIMER_OUT_MS"] == str(NOW + 2_500)
    with pytest.raises(Refusal, match="max delay 60000ms"):
        finer.place({"TIMER_DELAY_MS": "60001"}, "orders", 0)


def test_without_the_wheel_messages_with_a_time_are_refused() -> None:
    off = rules(StoreSettings(timer_wheel_enabled=False))
    assert off.place({}, "orders", 1) == ("orders", 1)
    with pytest.raises(Refusal, match="^accurate timer message is not enabled, timerWheelEnable"):
        off.place({"TIMER_DELAY_MS": "1"}, "orders", 1)


def test_a_full_slot_refuses_more_the_fuller_it_is() -> None:
    limited = StoreSettings(timer_slot_messages_max=100)

    def refused(in_slot: int) -> int:
        made, count = rules(limited, in_slot=in_slot), 0
        for _ in range(1_000):
            try:
                made.place({"TIMER_DELAY_MS": "5000"}, "orders", 0)
            except Refusal:
                count += 1
        return count

    assert refused(100) == 0
    assert 150 < refused(120) < 250
    assert 850 < refused(190) < 950
    assert refused(200) == 1_000
    with pytest.raises(Refusal, match="^timer message is under flow control, max num") as caught:
        rules(limited, in_slot=200).place({"TIMER_DELAY_MS": "5000"}, "orders", 0)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_the_handle_brings_a_recall_into_the_slot_of_its_message() -> None:
    made = rules()
    found = {"TIMER_DELAY_MS": "2500", "UNIQ_KEY": "U1"}
    made.place(found, "orders", 0)
    handle = made.handle(properties.encode(found), "U1")
    assert handle is not None
    parts = parse_recall_handle(handle)
    assert parts == ("orders", "broker-a", NOW + 2_001, "U1")
    recall = {"TIMER_DELIVER_MS": str(parts.timestamp_ms), "TIMER_DEL_UNIQKEY": "U1"}
    assert made.place(recall, "orders", 0) == (TIMER_TOPIC, 0)
    assert recall["TIMER_OUT_MS"] == found["TIMER_OUT_MS"]


@pytest.mark.parametrize(
    ("topic", "key"), [("%RETRY%g", "U1"), ("orders", "two words"), ("orders", None)]
)
def test_some_messages_have_no_handle(topic: str, key: str | None) -> None:
    found = {"TIMER_DELAY_MS": "2500"}
    rules().place(found, topic, 0)
    assert rules().handle(properties.encode(found), key) is None


def test_settings_that_change_are_used_at_once() -> None:
    made = rules()
    made.settings.store = replace(made.settings.store, timer_max_delay_s=1)
    with pytest.raises(Refusal, match="max delay 1000ms"):
        made.place({"TIMER_DELAY_SEC": "2"}, "orders", 0)
