"""Which settings a nameserver has, and which of them may change while it runs."""

import logging

import pytest

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.nameserver.settings import JAVA_NAMES, LiveSettings, NameserverSettings
from orbitmq.settings import from_arguments, parse
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
    own = {
        "listenHost": "127.0.0.1",
        "kvConfigPath": "~/namesrv/kvConfig.json",
        "configBlackList": "configBlackList;configStorePath;kvConfigPath",
        "logLevel": "INFO",
    }
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
    assert JAVA_NAMES.keys() - {"listenHost", "logLevel"} <= said.keys()


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


def test_a_reload_changes_what_can_be_changed() -> None:
    live = LiveSettings.load(from_arguments(["listenPort=1", "waitSecondsForService=7"]))
    changed, fixed = live.reload(
        parse("listenPort=2\norderMessageEnable=true\ntls.server.mode=disabled\n", "namesrv.conf")
    )
    assert changed == ["orderMessageEnable", "waitSecondsForService"]
    assert fixed == ["listenPort", "tls.*"]
    assert live.now == NameserverSettings(listen_port=1, order_message_enable=True)


def test_a_reload_of_a_bad_file_changes_nothing() -> None:
    live = LiveSettings()
    with pytest.raises(InvalidSetting, match="^namesrv.conf:2: waitSecondsForService"):
        live.reload(parse("orderMessageEnable=true\nwaitSecondsForService=x", "namesrv.conf"))
    assert live.now == NameserverSettings()


def test_a_struct_made_by_hand_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match="wait_seconds_for_service is -1"):
        NameserverSettings(wait_seconds_for_service=-1)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("listenPort=1", "listenPort can't be changed"),
        ("listenHost=::1", "listenHost can't be changed"),
        ("bindAddress=::1", "bindAddress can't be changed"),
        ("kvConfigPath=/x", "kvConfigPath can't be changed"),
        ("configBlackList=x", "configBlackList can't be changed"),
        ("noSuchThing=1", "noSuchThing can't be changed"),
        ("enableTopicList=true", "enableTopicList can't be changed"),  # the list below
        ("clusterTest=true", "clusterTest=true: routes are never looked up"),
        ("clusterTest=false", None),
        ("orderMessageEnable=true", None),
        ("rocketmqHome=/x", None),
    ],
)
def test_what_the_network_may_not_set(argument: str, reason: str | None) -> None:
    live = LiveSettings(NameserverSettings(config_black_list="enableTopicList;x"))
    found = live.why_fixed(from_arguments([argument]))
    assert (found or "").startswith(reason or "")
    assert (found is None) is (reason is None)


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        (
            "enableControllerInNamesrv=true",
            "brokers elect their master in etcd; there are no controllers",
        ),
        ("tls.server.mode=enforcing", "needs tls.server.certPath"),
    ],
)
def test_a_promise_that_is_not_kept_is_refused(argument: str, complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        LiveSettings.load(from_arguments([argument]))


def test_unknown_and_harmless_keys_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orbitmq.nameserver")
    LiveSettings.load(from_arguments(["listenPrt=1", "serverWorkerThreads=8", "useTLS=false"]))
    assert [level for _, level, _ in caplog.record_tuples] == [logging.WARNING, logging.INFO]
    assert "did you mean listenPort?" in caplog.text
    assert "serverWorkerThreads: one event loop" in caplog.text


def test_an_update_keeps_the_rest() -> None:
    live = LiveSettings(NameserverSettings(listen_port=1))
    live.update(from_arguments(["orderMessageEnable=true"]))
    assert live.now == NameserverSettings(listen_port=1, order_message_enable=True)


def test_an_update_that_fails_changes_nothing() -> None:
    live = LiveSettings()
    with pytest.raises(InvalidSetting):
        live.update(from_arguments(["orderMessageEnable=true", "enableTopicList=maybe"]))
    assert live.now == NameserverSettings()
