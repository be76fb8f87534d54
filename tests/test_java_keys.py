"""The table of Java's keys: complete, without contradictions, and in line with the settings."""

import pytest

from orbitmq.broker import settings as broker_settings
from orbitmq.errors import InvalidSetting
from orbitmq.failover.settings import FAILOVER_NAMES
from orbitmq.java_keys import BROKER_CLASSES, NAMESERVER_CLASSES, TABLE, Kind, ServerKeys
from orbitmq.nameserver import settings as nameserver_settings
from orbitmq.net.tls_settings import TLS_NAMES
from orbitmq.replication.settings import REPLICATION_NAMES
from orbitmq.settings import Property, from_arguments

OF_BROKER = {
    *broker_settings.JAVA_NAMES,
    *broker_settings.STORE_NAMES,
    *REPLICATION_NAMES,
    *FAILOVER_NAMES,
    *broker_settings.CONNECTION_NAMES,
    *TLS_NAMES,
}
OF_NAMESERVER = {*nameserver_settings.JAVA_NAMES, *TLS_NAMES}


def rows(classes: tuple[str, ...], *kinds: Kind) -> set[str]:
    return {key for key, row in TABLE if row.java_class in classes and row.kind in kinds}


@pytest.mark.parametrize(
    ("classes", "settings"), [(BROKER_CLASSES, OF_BROKER), (NAMESERVER_CLASSES, OF_NAMESERVER)]
)
def test_the_keys_said_to_be_served_are_settings(
    classes: tuple[str, ...], settings: set[str]
) -> None:
    everything = {key for key, _ in TABLE}
    served = rows(classes, Kind.SERVED)
    if classes is NAMESERVER_CLASSES:
        served -= {"serverChannelMaxIdleTimeSeconds", "connectTimeoutMillis"}  # it keeps defaults
    assert served == settings & everything


def test_a_key_has_one_row_in_a_class_and_a_reason_unless_it_is_served() -> None:
    named = [(row.java_class, key) for key, row in TABLE]
    assert len(set(named)) == len(named)
    assert [key for key, row in TABLE if bool(row.why) is (row.kind is Kind.SERVED)] == []


@pytest.mark.parametrize("classes", [BROKER_CLASSES, NAMESERVER_CLASSES])
def test_no_key_of_a_server_is_both_harmless_and_refused(classes: tuple[str, ...]) -> None:
    assert not rows(classes, Kind.HARMLESS) & rows(classes, Kind.REFUSED)


KEYS = ServerKeys(OF_BROKER, BROKER_CLASSES)


@pytest.mark.parametrize("name", sorted(rows(BROKER_CLASSES, Kind.REFUSED)))
def test_a_refused_key_is_harmless_with_javas_default_alone(name: str) -> None:
    (row,) = {row for key, row in TABLE if key == name}
    assert KEYS.is_harmless(Property(name, row.unless, "broker.conf", 1))
    refused = Property(name, "something-else", "broker.conf", 7)
    assert not KEYS.is_harmless(refused)
    with pytest.raises(InvalidSetting, match=f"^broker.conf:7: {name}=something-else: ") as caught:
        KEYS.check([refused])
    assert row.why in str(caught.value)
    assert (caught.value.line, caught.value.field) == (7, name)


def test_only_a_key_of_neither_kind_is_unknown() -> None:
    said = from_arguments(["aclEnable=true", "highSpeedMode=1", "brokerName=a", "aclEnabled=true"])
    (warning,) = KEYS.unknown(said)
    assert "aclEnabled" in warning
    assert "did you mean aclEnable?" in warning


def test_a_key_that_another_server_serves_has_no_effect() -> None:
    keys = ServerKeys(OF_NAMESERVER, NAMESERVER_CLASSES)
    said = from_arguments(["serverChannelMaxIdleTimeSeconds=60"])
    assert keys.unknown(said) == []
    assert keys.notes(said) == [
        "no effect: serverChannelMaxIdleTimeSeconds: this server keeps the default"
    ]
