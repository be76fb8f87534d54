import ssl
from pathlib import Path

import pytest

from orbitmq.client.settings import (
    CLIENT_NAMES,
    PRODUCER_NAMES,
    AccessChannel,
    ClientSettings,
    FaultTolerance,
    ProducerSettings,
    Require,
    load,
)
from orbitmq.errors import InvalidGroup, InvalidInput, InvalidSetting, InvalidTopic
from orbitmq.message.compression import CompressionType
from orbitmq.settings import build, from_arguments


def client(**values: object) -> ClientSettings:
    return ClientSettings(**values)  # type: ignore[arg-type]


def producer(**values: object) -> ProducerSettings:
    return ProducerSettings("billing", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"nameserver": "names"}, "nameserver"),
        ({"nameserver": "names:0"}, "nameserver"),
        ({"nameserver": "a:1", "nameserver_url": "http://x/"}, "nameserver_url"),
        ({"nameserver_url": "ftp://x/"}, "nameserver_url"),
        ({"access_key": "alice"}, "secret_key"),
        ({"secret_key": "open sesame"}, "access_key"),
        ({"security_token": "t"}, "access_key"),
        ({"access_channel": "MOON"}, "access_channel"),
        ({"instance_name": ""}, "instance_name"),
        ({"instance_name": "a b"}, "instance_name"),
        ({"unit_name": "a@b"}, "unit_name"),
        ({"namespace": "a.b"}, "namespace"),
        ({"request_timeout_ms": 0}, "request_timeout_ms"),
        ({"poll_nameserver_interval_ms": "30"}, "poll_nameserver_interval_ms"),
        ({"keep_open_ms": -1}, "keep_open_ms"),
        ({"keep_open_ms": None}, "keep_open_ms"),
        ({"nameserver": ["a:1"]}, "nameserver"),
        ({"nameserver": 3}, "nameserver"),
        ({"tls": "false"}, "tls"),
        ({"address_map": [1]}, "address_map"),
        ({"ssl_context": "ca.pem"}, "ssl_context"),
        ({"net": {}}, "net"),
    ],
)
def test_a_client_setting_that_cannot_be_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        client(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"send_timeout_ms": 0}, "send_timeout_ms"),
        ({"per_try_timeout_ms": -2}, "per_try_timeout_ms"),
        ({"retries": -1}, "retries"),
        ({"in_flight_max": 9}, "in_flight_max"),
        ({"in_flight_bytes_max": 1024}, "in_flight_bytes_max"),
        ({"linger_ms": 30_001}, "linger_ms"),
        ({"batch_bytes": 2 * 1024 * 1024 + 1}, "batch_bytes"),
        ({"total_bytes": 1024}, "total_bytes"),
        ({"fault_tolerance": "java6"}, "fault_tolerance"),
        ({"require": "certain"}, "require"),
        ({"compression_type": "gzip"}, "compression_type"),
        ({"topics": "orders"}, "topics"),
        ({"topics": 3}, "topics"),
        ({"topics": ["a.b"]}, "topics"),
        ({"trace_topic": "a.b"}, "trace_topic"),
        ({"retry_codes": "12"}, "retry_codes"),
        ({"outbox_path": 3}, "outbox_path"),
        ({"auto_batch": "no"}, "auto_batch"),
        ({"send_timeout_ms": None}, "send_timeout_ms"),
        ({"detector": True}, "detector"),
        ({"trace_batch_max": 21}, "trace_batch_max"),
        ({"max_message_bytes": 16 * 1024 * 1024}, "max_message_bytes"),
    ],
)
def test_a_producer_setting_that_cannot_be_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        producer(**values)
    assert caught.value.field == field


def test_groups_and_topics_are_checked() -> None:
    with pytest.raises(InvalidGroup, match="group: group 'a.b'"):
        ProducerSettings("a.b")
    with pytest.raises(InvalidTopic):
        producer(topics=("a.b",))


def test_texts_stand_for_enums() -> None:
    settings = producer(fault_tolerance="java4", require="flushed")
    assert settings.fault_tolerance is FaultTolerance.JAVA4
    assert settings.require is Require.FLUSHED
    assert producer(compression_type="LZ4").compression_type is CompressionType.LZ4
    assert client(access_channel="CLOUD").access_channel is AccessChannel.CLOUD


def test_settings_with_the_same_values_are_equal() -> None:
    assert client(address_map={"a": "b"}) == client(address_map={"a": "b"})
    assert producer(topics=["orders"]) == producer(topics=("orders",))


def test_no_secret_is_shown() -> None:
    settings = client(
        access_key="alice", secret_key="sesame", security_token="tok3n", tls_key_password="hush"
    )
    shown = repr(settings)
    assert "alice" in shown
    assert not any(secret in shown for secret in ("sesame", "tok3n", "hush"))


def test_java_names_load_a_client() -> None:
    said = from_arguments(
        [
            "namesrvAddr=10.0.0.1:9876;10.0.0.2:9876",
            "instanceName=one",
            "vipChannelEnabled=true",
            "useTLS=true",
            "tls.client.authServer=false",
            "pollNameServerInterval=1000",
            "namespaceV2=eu",
        ]
    )
    assert build(ClientSettings, said, CLIENT_NAMES) == ClientSettings(
        nameserver="10.0.0.1:9876;10.0.0.2:9876",
        instance_name="one",
        vip_channel=True,
        tls=True,
        tls_verify=False,
        poll_nameserver_interval_ms=1000,
        namespace_v2="eu",
    )


def test_java_names_load_a_producer() -> None:
    said = from_arguments(
        [
            "producerGroup=billing",
            "sendMsgMaxTimeoutPerRequest=-1",
            "retryTimesWhenSendFailed=3",
            "compressType=ZSTD",
            "backPressureForAsyncSendNum=64",
        ]
    )
    assert build(ProducerSettings, said, PRODUCER_NAMES) == ProducerSettings(
        "billing", retries=3, compression_type=CompressionType.ZSTD, in_flight_max=64
    )


def test_javas_switch_for_fault_tolerance_is_a_kind_of_it() -> None:
    for text, kind in (("true", FaultTolerance.JAVA5), ("FALSE", FaultTolerance.OFF)):
        assert load(from_arguments([f"sendLatencyEnable={text}"]))[1].fault_tolerance is kind
    with pytest.raises(InvalidSetting, match="--set: sendLatencyEnable: 'maybe'"):
        load(from_arguments(["sendLatencyEnable=maybe"]))


def test_a_bad_property_is_named_with_its_place() -> None:
    with pytest.raises(InvalidSetting, match="--set: backPressureForAsyncSendNum"):
        build(ProducerSettings, from_arguments(["backPressureForAsyncSendNum=1"]), PRODUCER_NAMES)
    with pytest.raises(InvalidSetting, match="'BROTLI' is not one of LZ4, ZSTD, ZLIB$"):
        build(ProducerSettings, from_arguments(["compressType=BROTLI"]), PRODUCER_NAMES)


@pytest.mark.parametrize("names", [CLIENT_NAMES, PRODUCER_NAMES])
def test_every_name_sets_a_field(names: dict[str, str]) -> None:
    kind = ClientSettings if names is CLIENT_NAMES else ProducerSettings
    assert set(names.values()) <= set(kind.__struct_fields__)


def test_client_ids_are_put_together_as_in_java() -> None:
    assert client().client_id("10.0.0.9", "1#2") == "10.0.0.9@1#2"
    named = client(client_ip="1.1.1.1", instance_name="one", unit_name="u")
    assert named.client_id("10.0.0.9", "1#2") == "1.1.1.1@one@u"


def test_tls_verifies_certificates_unless_switched_off() -> None:
    assert client().tls_context() is None
    verifying, trusting = client(tls=True), client(tls=True, tls_verify=False)
    assert verifying.tls_context().verify_mode is ssl.CERT_REQUIRED  # type: ignore[union-attr]
    assert trusting.tls_context().verify_mode is ssl.CERT_NONE  # type: ignore[union-attr]
    own = ssl.create_default_context()
    assert client(ssl_context=own).tls_context() is own
    with pytest.raises(InvalidInput, match="no-such-file"):
        client(tls=True, tls_ca_file="no-such-file").tls_context()


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    with pytest.raises(InvalidInput, match="secret_key must be a str, not bytes") as caught:
        client(access_key="alice", secret_key=b"sesame")
    assert "sesame" not in str(caught.value)


def test_credentials_need_a_key() -> None:
    assert client().credentials is None
    lent = client(access_key="alice", secret_key="x", security_token="t").credentials
    assert lent is not None
    assert lent.security_token == "t"


def test_the_outbox_may_be_given_as_a_path() -> None:
    assert ProducerSettings(outbox_path=Path("a/b")).outbox_path == str(Path("a/b"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="outbox_path must be a str, not int"):
        ProducerSettings(outbox_path=3)  # type: ignore[arg-type]
