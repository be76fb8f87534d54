"""Which settings a nameserver has, and which of them may change while it runs."""

import pytest

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.nameserver.settings import JAVA_NAMES, LiveSettings, NameserverSettings
from orbitmq.settings import Property, from_arguments, parse
from tests.golden_files import golden

JAVA_DEFAULTS = {
    "scanNotActiveBrokerInterval": "5000",
    "orderMessageEnable": "false",
    "returnOrderTopicConfigToBroker": "true",
    "enableAllTopicList": "true",
    "enableTopicList": "true",
    "deleteTopicWithBrokerRegistration": "false",
    "supportActingMaster": "false",
    "notifyMinBrokerIdChanged": "false",
    "needWaitForService": "false",
    "waitSecondsForService": "45",
}


def test_names_and_defaults_are_those_of_java() -> None:
    texts = LiveSettings().texts()
    own = {"listenHost": "127.0.0.1", "kvConfigPath": "~/namesrv/kvConfig.json"}
    assert texts == {**JAVA_DEFAULTS, **own, "listenPort": "9876"}


def test_java_itself_says_so() -> None:
    """A Java nameserver told its settings in the recorded session."""
    (recorded,) = [
        bytes.fromhex(frame["hex"])[-frame["body_len"] :]
        for frame in golden("session_json")["frames"]
        if frame["request_name"] == "GET_NAMESRV_CONFIG" and frame["dir"] == "s2c"
    ]
    said = {one.name: one.value for one in parse(recorded.decode(), "recorded")}
    assert JAVA_DEFAULTS.items() <= said.items()
    assert JAVA_NAMES.keys() - {"listenHost"} <= said.keys()


def test_a_file_of_java_loads() -> None:
    live = LiveSettings.load(parse("listenPort=1\nbindAddress=::1\n", "namesrv.conf"))
    assert live.now == NameserverSettings(listen_port=1, listen_host="::1")


@pytest.mark.parametrize(
    "wrong",
    ["listenPort=65536", "listenPort=-1", "scanNotActiveBrokerInterval=0"],
)
def test_numbers_have_their_ranges(wrong: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^--set: {wrong.partition('=')[0]}: .* must be from"):
        LiveSettings.load(from_arguments([wrong]))


def test_a_struct_made_by_hand_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match="wait_seconds_for_service is -1"):
        NameserverSettings(wait_seconds_for_service=-1)


def test_what_the_network_may_not_set() -> None:
    names = ["listenPort", "listenHost", "bindAddress", "kvConfigPath", "rocketmqHome"]
    wanted = [Property(name, "1", "f") for name in (*names, "orderMessageEnable")]
    assert LiveSettings().fixed(wanted) == names


def test_an_update_keeps_the_rest() -> None:
    live = LiveSettings(NameserverSettings(listen_port=1))
    live.update(from_arguments(["orderMessageEnable=true"]))
    assert live.now == NameserverSettings(listen_port=1, order_message_enable=True)


def test_an_update_that_fails_changes_nothing() -> None:
    live = LiveSettings()
    with pytest.raises(InvalidSetting):
        live.update(from_arguments(["orderMessageEnable=true", "enableTopicList=maybe"]))
    assert live.now == NameserverSettings()
