"""Real RocketMQ servers: a Java nameserver and a Java broker, each in a process of its own.

A test that needs them asks for the fixture ``java_cluster_540``, which is shared by all tests of a
run, and takes a topic of its own from it (``java_cluster`` is one of each release in turn)::

    def test_something(java_cluster_540: JavaCluster) -> None:
        topic = java_cluster_540.create_topic("something")
        with java_cluster_540.broker.connect() as connection:
            connection.request(...)

A test that stops, kills or configures servers starts its own, and may restart them on their files::

    with JavaCluster("5.4.0", tmp_path, broker_settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        cluster.broker.kill()
        cluster.broker.start()

A second broker, such as a replica, joins the nameserver of the first::

    replica = {"brokerId": 1, "brokerRole": "SLAVE"}
    with JavaBroker("5.4.0", tmp_path, nameserver=cluster.nameserver.address, settings=replica):
        ...

A cluster takes about six seconds to start and one or two to end.
"""

import contextlib
import itertools
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.json.properties_text import properties_to_text
from orbitmq.wire.session import Identity
from tests.interop.java_server import PATIENT, JavaServer, JavaServerFailed, Settings, free_port
from tests.interop.waiting import until

LOOPBACK = "127.0.0.1"
READ_WRITE = 6
"""A topic's permission: 4 to read, 2 to write."""

SMALL_STORE: Settings = {
    "mappedFileSizeCommitLog": 16 * 1024 * 1024,  # over the 4 MiB that one message may have
    "mappedFileSizeConsumeQueue": 6_000 * 20,
    # A busy machine is no reason to refuse a message.
    "waitTimeMillsInSendQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "timerWheelEnable": "false",  # its files take 38 MB
    "transactionMetricFlushInterval": 200,  # in 5.x a thread spins for that long after a start
}


class JavaNameserver(JavaServer):
    """A nameserver. It is ready when it answers."""

    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        settings: Settings | None = None,
        jvm_properties: Settings | None = None,
    ) -> None:
        address = Address(LOOPBACK, free_port())
        defaults: Settings = {
            "listenPort": address.port,
            "kvConfigPath": str(directory / "kvConfig.json"),
            "configStorePath": str(directory / "namesrv.properties"),
        }
        super().__init__(
            version,
            directory,
            address=address,
            settings={**defaults, **(settings or {})},
            jvm_properties=jvm_properties,
        )

    def brokers(self) -> dict[str, dict[int, str]]:
        """Return the addresses of the brokers that are registered, by broker name and id."""
        return brokers_known_to(self.address)

    def has_route(self, topic: str) -> bool:
        """Tell whether clients could find a topic."""
        with self.connect() as connection:
            return connection.request(GetRouteInfo(topic=topic)).code == ResponseCode.SUCCESS

    def route(self, topic: str) -> TopicRouteData:
        """Return what is said of a topic, which must be known by now or soon."""
        until(lambda: self.has_route(topic), what=f"the route of {topic}", seconds=40)
        with self.connect() as connection:
            return TopicRouteData.from_json(connection.request(GetRouteInfo(topic=topic)).body)

    def _is_ready(self) -> bool:
        self.brokers()
        return True


class JavaBroker(JavaServer):
    """A broker, with files small enough for many tests on one disk.

    It is ready when it answers and the nameserver knows it. It listens on three ports: its own, the
    one two below (for clients that jump the queue), and the one above (for replicas).
    """

    main_class = "org.apache.rocketmq.broker.BrokerStartup"

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        nameserver: Address,
        settings: Settings | None = None,
        jvm_properties: Settings | None = None,
        identity: Identity | None = None,
    ) -> None:
        address = Address(LOOPBACK, free_port(below=2, above=1))
        store = directory / "store"
        defaults: Settings = {
            "brokerClusterName": "JavaCluster",
            "brokerName": "java-a",
            "brokerId": 0,
            "brokerIP1": address.host,
            "brokerIP2": address.host,
            "listenPort": address.port,
            "namesrvAddr": str(nameserver),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            **SMALL_STORE,
        }
        super().__init__(
            version,
            directory,
            address=address,
            settings={**defaults, **(settings or {})},
            jvm_properties=jvm_properties,
            identity=identity,
        )
        self._nameserver = nameserver

    @property
    def name(self) -> str:
        """The broker name, by which routes call it."""
        return str(self.settings["brokerName"])

    @property
    def cluster_name(self) -> str:
        """The cluster it says it is a part of."""
        return str(self.settings["brokerClusterName"])

    @property
    def advertised(self) -> Address:
        """Where clients are told to reach it: where it serves, unless its settings lie."""
        return Address(str(self.settings["brokerIP1"]), self.address.port)

    def create_topic(self, topic: str, *, queues: int = 4, attributes: str | None = None) -> None:
        """Create a topic, or change the number of its queues.

        Args:
            topic: its name.
            queues: how many of them are read, and written.
            attributes: what else it is, such as ``+queue.type=BatchCQ``.

        Raises:
            JavaServerFailed: the broker refuses; the message has its remark.

        """
        wanted = CreateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=READ_WRITE,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            attributes=attributes,
        )
        with self.connect() as connection:
            answer = connection.request(wanted)
        if answer.code != ResponseCode.SUCCESS:
            raise JavaServerFailed(f"topic {topic} was not created: {answer!r}")

    def _is_ready(self) -> bool:
        self._register()
        known = brokers_known_to(self._nameserver).get(self.name, {})
        return str(self.advertised) in known.values()

    def _register(self) -> None:
        """Have it register now.

        It does so by itself when it starts, but to no nameserver unless a thread of its own has
        met one by then (``BrokerOuterAPI`` in 5.x), and next after ten seconds. It also does so
        when its permission is set, be it to what it was.
        """
        permission = str(self.settings.get("brokerPermission", READ_WRITE))
        change = properties_to_text({"brokerPermission": permission})
        with self.connect() as connection:
            connection.request(NoFields(), change, code=RequestCode.UPDATE_BROKER_CONFIG)


class JavaCluster:
    """A nameserver and a broker that is registered there; for a ``with`` statement.

    Args:
        version: of RocketMQ, for both.
        directory: where their settings, files and logs go.
        broker_settings: settings of the broker, beyond or instead of the usual ones.
        nameserver_settings: likewise, of the nameserver.
        jvm_properties: system properties of both.
        identity: how tests introduce themselves to the broker.

    """

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        broker_settings: Settings | None = None,
        nameserver_settings: Settings | None = None,
        jvm_properties: Settings | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.version = version
        self.nameserver = JavaNameserver(
            version,
            directory / "nameserver",
            settings=nameserver_settings,
            jvm_properties=jvm_properties,
        )
        self.broker = JavaBroker(
            version,
            directory / "broker",
            nameserver=self.nameserver.address,
            settings=broker_settings,
            jvm_properties=jvm_properties,
            identity=identity,
        )
        self._servers = contextlib.ExitStack()
        self._topics = itertools.count(1)

    def create_topic(self, purpose: str, *, queues: int = 4) -> str:
        """Create a topic that no other test has, and return its name when clients can find it."""
        topic = f"{purpose}-{next(self._topics)}"
        self.broker.create_topic(topic, queues=queues)
        until(lambda: self.nameserver.has_route(topic), what=f"the route of {topic}")
        return topic

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            for server in (self.nameserver, self.broker):  # side by side: it takes less long
                server.launch()
                started.callback(server.kill)
            self.nameserver.wait_until_it_serves()
            self.broker.wait_until_it_serves()
            self._servers = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._servers.close()

    def __repr__(self) -> str:
        return f"<JavaCluster {self.nameserver!r}, {self.broker!r}>"


def brokers_known_to(nameserver: Address) -> dict[str, dict[int, str]]:
    """Return the addresses of all brokers of a nameserver, by broker name and id."""
    with BlockingConnection(nameserver, settings=PATIENT) as connection:
        answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
    found = ClusterInfo.from_json(answer.body).broker_addr_table
    return {name: broker.broker_addrs for name, broker in found.items()}
