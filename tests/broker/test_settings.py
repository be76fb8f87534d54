import logging

import msgspec
import pytest

from orbitmq.broker.settings import (
    CONNECTION_NAMES,
    JAVA_NAMES,
    STORE_NAMES,
    UPDATABLE,
    BrokerRole,
    BrokerSettings,
    LiveSettings,
)
from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.failover.settings import FAILOVER_NAMES, FailoverSettings
from orbitmq.net.settings import NetSettings
from orbitmq.replication.settings import REPLICATION_NAMES, ReplicationSettings
from orbitmq.settings import from_arguments, parse
from orbitmq.store.settings import CHANGEABLE, FlushMode, StoreSettings
from orbitmq.wire.frame import FrameReader
from orbitmq.wire.json.properties_text import properties_from_text
from tests.golden_files import golden

ALL_NAMES = {
    **JAVA_NAMES,
    **STORE_NAMES,
    **REPLICATION_NAMES,
    **FAILOVER_NAMES,
    **CONNECTION_NAMES,
}
OURS = {
    *("listenHost", "handshakeTimeoutMs", "closeTimeoutMs", "requestTimeoutMs", "inFlightMax"),
    "enableTopicMessageTypeCheck",  # of Java's proxy
    *("servingMax", "unsentBytesMax", "frameBytesMax", "connectionsMax", "acceptLoss"),
    *("sendDeduplicationEnable", "sendDeduplicationMaxNum", "sendDeduplicationTimeMills"),
    "logLevel",
    *("etcdEndpoints", "etcdKeyPrefix", "etcdTimeoutMillis", "etcdTlsEnable", "etcdTlsCertPath"),
    *("etcdTlsTrustCertPath", "etcdTlsKeyPath", "etcdTlsServerName"),
    *("etcdUser", "etcdPassword", "etcdPasswordFile"),
    "enableElectUncleanMaster",  # of Java's controller
}


def java_properties() -> dict[str, str]:
    """Return the settings of a Java broker, as recorded."""
    (results,) = [
        frame
        for frame in golden("session_json")["frames"]
        if (frame["request_name"], frame["kind"]) == ("GET_BROKER_CONFIG", "response")
    ]
    (answer,) = FrameReader().feed(bytes.fromhex(results["hex"]))
    return properties_from_text(answer.body)


def test_one_file_sets_the_broker_its_store_and_its_connections() -> None:
    text = """
        # a broker.conf as Java's documents show it
        brokerClusterName = DefaultCluster
        brokerName=broker-b
        brokerRole=SYNC_MASTER
        flushDiskType=SYNC_FLUSH
        deleteWhen=05
        mappedFileSizeConsumeQueue=6000001
        namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
        serverChannelMaxIdleTimeSeconds=60
    """
    live = LiveSettings.load(parse(text, "broker.conf"))
    assert live.broker.broker_name == "broker-b"
    assert live.broker.broker_role is BrokerRole.SYNC_MASTER
    assert [one.host for one in live.broker.nameservers()] == ["10.0.0.1", "10.0.0.2"]
    assert (live.store.flush_mode, live.store.delete_when) == (FlushMode.SYNC, "05")
    assert live.store.queue_file_entries == 300_001  # a part of an entry makes one more, as in Java
    assert live.net.idle_close_ms == 60_000


@pytest.mark.parametrize("key", ["enableLmq", "enableMultiDispatch"])
def test_half_of_light_queues_is_refused(key: str) -> None:
    with pytest.raises(InvalidSetting, match="set both or none"):
        LiveSettings.load(parse(f"{key}=true", "broker.conf"))


@pytest.mark.parametrize(
    "settings",
    [BrokerSettings, StoreSettings, ReplicationSettings, FailoverSettings, NetSettings],
)
def test_every_field_has_a_property(settings: type[msgspec.Struct]) -> None:
    assert set(settings.__struct_fields__) <= set(ALL_NAMES.values())


def test_the_properties_are_those_of_java_but_for_our_own() -> None:
    # Java has no default for that one, so it tells nothing of it.
    assert ALL_NAMES.keys() - java_properties().keys() == OURS | {"haMasterAddress"}


def test_the_defaults_are_java_s_unless_the_recording_has_another() -> None:
    java = java_properties()
    ours = LiveSettings().as_properties()
    chosen_by_the_one_who_recorded = {
        *("listenPort", "namesrvAddr", "brokerIP1", "bindAddress", "storePathRootDir"),
        "storePathCommitLog",  # which Java tells as it derives it
        *("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum"),
        *("maxIndexNum", "traceTopicEnable", "enablePropertyFilter", "recallMessageEnable"),
        *("transactionTimeOut", "transactionCheckInterval"),
        *("haListenPort", "inSyncReplicas", "allAckInSyncStateSet"),  # see the docs
        "controllerHeartBeatTimeoutMills",
    }
    different = {name for name in ours.keys() & java.keys() if ours[name] != java[name]}
    assert different <= chosen_by_the_one_who_recorded


def test_the_log_may_have_a_directory_of_its_own() -> None:
    live = LiveSettings.load(from_arguments(["storePathCommitLog=/fast/commitlog"]))
    assert live.store.log_directory("/data") == "/fast/commitlog"
    assert LiveSettings().store.log_directory("/data") == "/data/commitlog"


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("listenPort=70000", "listen_port is 70000; it must be from 0 to 65535"),
        ("brokerRole=SLAVE", "give the slave a brokerId of 1 or more"),
        ("brokerId=1", "a master has 0, and a slave brokerRole=SLAVE"),
        ("haMasterAddress=127.0.0.1", "not of the form host:port"),
        ("haTransferBatchSize=0", "it must be from 1 to"),
        ("slaveTimeout=0", "it must be from 1 to"),
        ("brokerPermission=5", "it must be 4 to read, 2 to write"),
        ("brokerName=broker a", "holds ' ' at position 6"),
        ("namesrvAddr=127.0.0.1", "not of the form host:port"),
        ("namesrvAddr=127.0.0.1:0", "a nameserver has a port from 1 to 65535"),
        ("brokerIP1=not an ip", "without a port"),
        ("brokerIP1=127.0.0.1:10911", "without a port"),
        ("brokerIP1=a;b", "without a port"),
        ("deleteWhen=25", "is not an hour from 00 to 23"),
        ("aclEnable=true", "there is no access control yet"),
        ("authenticationEnabled = True ", "there is no access control yet"),
        ("enableDLegerCommitLog=true", "replication by DLedger is not supported"),
        ("totalReplicas=2", "use inSyncReplicas"),
        ("storePathCommitLog=/a,/b", "a log in several directories, as Java has it"),
        ("readOnlyCommitLogStorePaths=/b", "the commit log is in one directory"),
        ("tls.server.mode=enforcing", "needs tls.server.certPath"),
        ("sendThreadPoolQueueCapacity=0", "it must be from 1 to"),
        ("autoCreateTopicEnable=maybe", "'maybe' is not true or false"),
        ("serverChannelMaxIdleTimeSeconds=soon", "'soon' is not a whole number"),
    ],
)
def test_an_invalid_value_is_an_error_with_its_key(argument: str, complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint) as caught:
        LiveSettings.load(from_arguments([argument]))
    assert argument.partition("=")[0].strip() in str(caught.value)


@pytest.mark.parametrize("host", ["", "10.0.0.7", "broker-a.example", "broker_a", "::1"])
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    said = from_arguments([f"brokerIP1={host}", "aclEnable=false"])
    assert LiveSettings.load(said).broker.broker_ip1 == host


def loaded_with(caplog: pytest.LogCaptureFixture, *arguments: str) -> list[tuple[int, str]]:
    caplog.set_level(logging.INFO, "orbitmq.broker")
    LiveSettings.load(from_arguments(arguments))
    return [(level, text) for _, level, text in caplog.record_tuples]


def test_an_unknown_key_is_a_warning_with_the_nearest_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logged = loaded_with(caplog, "brokerNmae=a", "brokerName=a", "fileReservedTime=1")
    ((level, text),) = logged
    assert level == logging.WARNING
    assert "brokerNmae" in text
    assert "did you mean brokerName?" in text


def test_keys_without_effect_are_logged_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pools = ("sendMessageThreadPoolNums=64", "pullMessageThreadPoolNums=16")
    logged = loaded_with(caplog, *pools, "transientStorePoolEnable=true", "aclEnable=false")
    assert [level for level, _ in logged] == [logging.INFO] * 2
    assert "sendMessageThreadPoolNums, pullMessageThreadPoolNums: one event loop" in logged[0][1]
    assert "transientStorePoolEnable: messages are written to the file at once" in logged[1][1]


def test_settings_written_out_are_read_back_the_same() -> None:
    live = LiveSettings(BrokerSettings(broker_ip1="10.0.0.7"), StoreSettings(queue_file_entries=77))
    said = from_arguments(f"{key}={value}" for key, value in live.as_properties().items())
    again = LiveSettings.load(said)
    assert (again.broker, again.store, again.net) == (live.broker, live.store, live.net)


def test_an_update_changes_what_it_says_and_counts_a_version() -> None:
    live = LiveSettings(now_ms=5)
    changed = live.update(
        from_arguments(["brokerPermission=4", "maxMessageSize=1024", "traceOn=true"]), now_ms=9
    )
    assert (live.broker.broker_permission, live.store.max_message_bytes) == (4, 1024)
    assert changed == {"brokerPermission", "maxMessageSize"}
    assert (live.data_version.counter, live.data_version.timestamp) == (1, 9)


@pytest.mark.parametrize("name", [*sorted(ALL_NAMES.keys() - UPDATABLE), "noSuchThing"])
def test_what_is_not_on_the_list_cannot_be_updated(name: str) -> None:
    live = LiveSettings()
    with pytest.raises(InvalidInput, match=name) as caught:
        live.update(from_arguments(["traceOn=false", f"{name}=1"]), now_ms=1)
    assert not isinstance(caught.value, InvalidSetting)
    assert live.broker.trace_on  # all of an update, or nothing
    assert live.data_version.counter == 0


def test_a_harmless_key_can_be_updated_and_changes_nothing() -> None:
    live = LiveSettings()
    said = from_arguments(["sendMessageThreadPoolNums=64", "aclEnable=false", "traceOn=false"])
    assert live.update(said, now_ms=1) == {"traceOn"}


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("aclEnable=true", "aclEnable=true: there is no access control yet"),
        ("brokerConfigPath=/etc", "can't be changed while the broker runs"),  # Java's list
        ("tls.server.mode=disabled", "can't be changed while the broker runs"),
        ("traceOn=false", "can't be changed while the broker runs"),  # the list below
    ],
)
def test_a_refused_or_listed_key_cannot_be_updated(argument: str, complaint: str) -> None:
    live = LiveSettings.load(from_arguments(["configBlackList=brokerConfigPath;traceOn"]))
    with pytest.raises(InvalidInput, match=complaint):
        live.update(from_arguments([argument]), now_ms=1)


def test_no_path_address_or_name_can_be_updated() -> None:
    dangerous = ("path", "addr", "port", "host", "ip1", "name", "bind", "dir")
    keys = {key.replace("Support", "") for key in UPDATABLE}
    assert not [key for key in keys if any(word in key.lower() for word in dangerous)]


def test_an_invalid_update_changes_nothing() -> None:
    live = LiveSettings()
    with pytest.raises(InvalidSetting, match="maxMessageSize"):
        live.update(from_arguments(["traceOn=false", "maxMessageSize=-1"]), now_ms=1)
    assert live.broker.trace_on


def test_a_reload_changes_what_can_be_changed() -> None:
    live = LiveSettings.load(
        from_arguments(["listenPort=1", "fileReservedTime=1", "traceOn=false"])
    )
    live.update(from_arguments(["maxMessageSize=5"]), 0)  # which the file does not have
    text = "listenPort=2\nfileReservedTime=2\ntls.server.mode=disabled\nconfigBlackList=traceOn\n"
    changed, fixed = live.reload(parse(text, "broker.conf"), 7)
    assert changed == {"fileReservedTime", "traceOn", "maxMessageSize"}
    assert fixed == {"listenPort", "configBlackList", "tls.*"}
    assert (live.store.reserved_hours, live.broker.trace_on, live.broker.listen_port) == (
        2,
        True,
        1,
    )
    assert live.data_version.timestamp == 7


def test_a_reload_of_the_same_file_changes_nothing() -> None:
    given = from_arguments(["mappedFileSizeConsumeQueue=6000001", "logLevel=DEBUG"])
    live = LiveSettings.load(given)
    assert live.reload(given, 7) == (frozenset(), frozenset())
    assert live.data_version.counter == 0


def test_a_reload_of_a_bad_file_changes_nothing() -> None:
    live = LiveSettings()
    with pytest.raises(InvalidSetting, match="^broker.conf:2: fileReservedTime"):
        live.reload(parse("traceOn=false\nfileReservedTime=x\n", "broker.conf"), 7)
    assert live.as_properties() == LiveSettings().as_properties()


def test_a_password_is_not_shown_and_another_one_needs_a_restart() -> None:
    given = from_arguments(["etcdUser=broker", "etcdPassword=open sesame"])
    live = LiveSettings.load(given)
    assert live.failover.etcd_password == "open sesame"
    assert live.as_properties()["etcdPassword"] == "…"
    assert LiveSettings().as_properties()["etcdPassword"] == ""
    live.update(from_arguments(["brokerElectionPriority=7"]), 0)
    assert live.failover.etcd_password == "open sesame"
    with pytest.raises(InvalidInput, match="etcdPassword can't be changed") as failure:
        live.update(from_arguments(["etcdPassword=close sesame"]), 0)
    assert "sesame" not in str(failure.value)
    other = from_arguments(["etcdUser=broker", "etcdPassword=close sesame"])
    assert live.reload(other, 7)[1] == {"etcdPassword"}


def test_what_is_updatable_of_a_store_is_what_a_store_takes_while_it_runs() -> None:
    assert {STORE_NAMES[name] for name in UPDATABLE & STORE_NAMES.keys()} == CHANGEABLE


def test_every_updatable_property_is_one_of_a_broker_or_its_store() -> None:
    assert (ALL_NAMES.keys() - CONNECTION_NAMES.keys()) >= UPDATABLE


def test_a_broker_with_elections_takes_its_role_from_them_and_not_from_its_file() -> None:
    said = ["enableControllerMode=true", "etcdEndpoints=10.0.0.1:2379"]
    live = LiveSettings.load(from_arguments([*said, "brokerId=-1", "brokerRole=SLAVE"]))
    live.become(broker_id=3, is_master=False)
    assert (live.broker.broker_id, live.broker.is_slave) == (3, True)
    live.become(broker_id=3, is_master=True)
    assert (live.broker.broker_id, live.broker.broker_role) == (0, BrokerRole.SYNC_MASTER)
    changed, fixed = live.reload(from_arguments([*said, "brokerElectionPriority=7"]), 7)
    assert changed == {"brokerElectionPriority"}
    assert not fixed
    assert live.broker.broker_role is BrokerRole.SYNC_MASTER
    with pytest.raises(InvalidSetting, match="elections need a store"):
        LiveSettings.load(from_arguments(said[:1]))
