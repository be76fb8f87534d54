import pickle

import pytest

from orbitmq.errors import InvalidOption, NoNameserver, UnknownOption
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Bound
from orbitmq.spark.options.options import (
    Access,
    ReadOptions,
    Topics,
    WriteOptions,
    read_options,
    write_options,
)
from orbitmq.spark.options.table import OPTIONS, Operation, Option
from orbitmq.spark.schema import READ_COLUMNS

BASE = {"nameserver": "ns:9876", "subscribe": "orders"}


def batch(**given: str) -> ReadOptions:
    return read_options({**BASE, **given}, streaming=False)


def stream(**given: str) -> ReadOptions:
    return read_options({**BASE, **given}, streaming=True)


def write(**given: str) -> WriteOptions:
    return write_options({"nameserver": "ns:9876", **given})


def test_the_defaults_are_those_of_sparks_kafka_source() -> None:
    assert batch() == ReadOptions(
        access=Access(nameserver="ns:9876"),
        topics=Topics(names=("orders",)),
        start=Bound("earliest"),
        end=Bound("latest"),
    )
    assert stream().start == Bound("latest")
    assert stream().commit_offsets is False
    assert write() == WriteOptions(access=Access(nameserver="ns:9876"))


# Words that are no values, and one that needs another option.
UNSAYABLE = ("nameserver", "columns", "commitOffsets", "tlsVerify")
SAYABLE = [option for option in OPTIONS if option.default and option.name not in UNSAYABLE]


@pytest.mark.parametrize("option", SAYABLE, ids=lambda option: option.name)
def test_giving_a_default_changes_nothing(option: Option) -> None:
    said = {option.name: option.default.partition(";")[0]}
    if Operation.BATCH in option.operation:
        assert batch(**said) == batch()
    if Operation.WRITE in option.operation:
        assert write(**said) == write()
    if option.name == "maxTriggerDelay":
        few = {"minOffsetsPerTrigger": "5"}
        assert stream(**said, **few) == stream(**few)
        assert option.operation is Operation.STREAM


def test_all_options_of_a_read_arrive() -> None:
    options = stream(
        groupId="g",
        tags="a || b",
        columns="value, queue_offset",
        startingOffsets="earliest",
        failOnDataLoss="false",
        minPartitions="4",
        maxRecordsPerPartition="1000",
        pullCount="64",
        maxOffsetsPerTrigger="500",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="2m",
        namespace="eu",
        accessKey="alice",
        secretKey="open sesame",
        securityToken="lent",
        tls="true",
        tlsVerify="false",
        tlsCaFile="ca.pem",
        tlsCertFile="me.pem",
        tlsKeyFile="me.key",
        tlsKeyPassword="pw",
        addressMap='{"10.0.0.7": "127.0.0.1"}',
        requestTimeoutMs="9000",
    )
    assert options == ReadOptions(
        access=Access(
            nameserver="ns:9876",
            namespace="eu",
            access_key="alice",
            secret_key="open sesame",
            security_token="lent",
            tls=True,
            tls_verify=False,
            tls_ca_file="ca.pem",
            tls_cert_file="me.pem",
            tls_key_file="me.key",
            tls_key_password="pw",
            address_map=(("10.0.0.7", "127.0.0.1"),),
            request_timeout_ms=9000,
        ),
        topics=Topics(names=("orders",)),
        start=Bound("earliest"),
        end=Bound("latest"),
        columns=("value", "queue_offset"),
        are_columns_given=True,
        tags="a || b",
        min_partitions=4,
        max_records_per_partition=1000,
        max_offsets_per_trigger=500,
        min_offsets_per_trigger=50,
        max_trigger_delay_ms=120_000,
        fail_on_data_loss=False,
        group="g",
        commit_offsets=True,
        pull_count=64,
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert batch(pushFilters="true", endingTimestamp="5").end == Bound("timestamp", timestamp_ms=5)


def test_all_options_of_a_write_arrive() -> None:
    options = write(
        topic="orders",
        group="writers",
        onReject="rejected",
        idColumn="id",
        batchBytes="4096",
        sendTimeoutMs="7000",
        retries="0",
        compressOverBytes="1",
    )
    assert options == WriteOptions(
        access=Access(nameserver="ns:9876"),
        topic="orders",
        group="writers",
        on_reject="rejected",
        id_column="id",
        batch_bytes=4096,
        send_timeout_ms=7000,
        retries=0,
        compress_over_bytes=1,
    )
    assert pickle.loads(pickle.dumps(options)) == options


def test_topics_are_a_list_a_pattern_or_queues() -> None:
    assert batch(subscribe="a, b,a").topics == Topics(names=("a", "b"))
    pattern = read_options({"nameserver": "n:1", "subscribePattern": "ord.*"}, streaming=False)
    assert pattern.topics == Topics(pattern="ord.*")
    assign = {"nameserver": "n:1", "assign": '{"t": ["b:0"]}'}
    assert read_options(assign, streaming=False).topics.assigned == (MessageQueue("t", "b", 0),)


def test_without_properties_all_other_columns_are_read() -> None:
    assert batch(includeProperties="true").columns == READ_COLUMNS
    for given in ({}, {"includeProperties": "false"}):
        assert set(READ_COLUMNS) - set(batch(**given).columns) == {"properties"}


def test_columns_that_name_properties_are_enough_to_read_them() -> None:
    assert batch(columns="value,properties").columns == ("value", "properties")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"subscribePattern": "x"}, "subscribe and subscribePattern are both given"),
        ({"subscribe": "no.dots"}, "subscribe: topic 'no.dots' holds '.'"),
        ({"groupId": "g g"}, "groupId: group 'g g' holds ' '"),
        ({"tags": "||"}, "tags: subscription .* names no tag"),
        ({"columns": "value,offset"}, "there is no column 'offset'; did you mean queue_offset?"),
        ({"columns": "value", "includeProperties": "true"}, "columns says otherwise"),
        ({"startingOffsets": "latest"}, "startingOffsets is latest"),
        ({"startingOffsets": '{"orders": {"b:0": -1}}'}, "startingOffsets is latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest"),
        ({"endingOffsets": '{"orders": {"b:0": -2}}'}, "endingOffsets is earliest"),
        ({"accessKey": "alice"}, "accessKey is given without secretKey"),
        ({"securityToken": "x"}, "securityToken is given without accessKey"),
        ({"tlsCaFile": "ca.pem"}, "tlsCaFile is given, but tls is not true"),
        ({"nameserver": "ns"}, "nameserver: address 'ns' is not of the form host:port"),
        ({"namespace": "a b"}, "namespace: "),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition is '0'"),
    ],
)
def test_bad_options_of_a_batch_are_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        batch(**given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "9, over maxOffsetsPerTrigger",
        ),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay is given without minOffsetsPerTrigger"),
        ({"commitOffsets": "true"}, "commitOffsets is given without groupId"),
        ({"endingTimestamp": "5"}, "endingTimestamp is an option of batch reads"),
        ({"pushFilters": "true"}, "pushFilters is an option of batch reads"),
    ],
)
def test_bad_options_of_a_stream_are_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        stream(**given)


def test_offsets_are_committed_for_a_group_unless_disabled() -> None:
    assert stream(groupId="g").commit_offsets is True
    assert stream(groupId="g", commitOffsets="false").commit_offsets is False
    assert stream(commitOffsets="false").commit_offsets is False
    assert batch(groupId="g").commit_offsets is False
    assert (batch(groupId="g").pull_group, batch().pull_group) == ("g", "TOOLS_CONSUMER")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"topic": "no.dots"}, "topic: topic 'no.dots' holds"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "is internal to brokers"),
        ({"onReject": "no topic"}, "onReject: "),
        ({"batchBytes": "99999999"}, "batchBytes is"),
        ({"compressOverBytes": "0"}, "compressOverBytes is '0'; it must be .* from 1 to"),
    ],
)
def test_bad_options_of_a_write_are_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        write(**given)


@pytest.mark.parametrize("word", ["fail", "FAIL", "Fail"])
def test_fail_is_never_a_topic_in_any_case(word: str) -> None:
    assert write(onReject=word).on_reject == "fail"


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a(", "missing \\)"),
        ("a{99999999999999999999}", "too large"),
        ("(" * 9_000 + ")" * 9_000, "nested too deep"),
    ],
    ids=["open", "overflow", "deep"],
)
def test_an_invalid_pattern_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(InvalidOption, match=f"^subscribePattern .*{what}") as caught:
        read_options({"nameserver": "n:1", "subscribePattern": pattern}, streaming=False)
    assert len(str(caught.value)) < 300


def test_an_unknown_option_is_reported_first() -> None:
    with pytest.raises(UnknownOption, match="did you mean subscribe"):
        read_options({"subscribee": "orders"}, streaming=False)


def test_the_nameserver_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "other:9876;third:9876")
    found = read_options({"subscribe": "orders"}, streaming=False)
    assert found.access.nameserver == "other:9876;third:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(NoNameserver, match="or set NAMESRV_ADDR"):
        read_options({"subscribe": "orders"}, streaming=False)


def test_no_secret_is_shown() -> None:
    shown = repr(batch(accessKey="alice", secretKey="open sesame", securityToken="lent"))
    assert "alice" in shown
    assert "sesame" not in shown
    assert "lent" not in shown
