"""Fixtures that give a test the real Java classes, or say why it can't have them.

They end with the last test of this folder: an idle Java server takes some percent of a core.
"""

import importlib.util
import os
import random
from collections.abc import Iterator
from typing import NoReturn

import pytest

from orbitmq import embedded
from tests.interop import counterparts
from tests.interop.cases import Chance
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster, JavaNameserver
from tests.interop.java_server import free_port
from tests.interop.team import Team
from tests.net.conftest import Certificates


@pytest.fixture(scope="package")
def java_540(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """RocketMQ 5.4.0, the release that orbitmq writes like."""
    yield from host("5.4.0", tmp_path_factory)


@pytest.fixture(scope="package")
def java_497(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """RocketMQ 4.9.7, the old line."""
    yield from host("4.9.7", tmp_path_factory)


@pytest.fixture(scope="package")
def java_550(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """RocketMQ 5.5.0, the newest release."""
    yield from host(counterparts.NEWEST_VERSION, tmp_path_factory)


@pytest.fixture(params=counterparts.ROCKETMQ_VERSIONS)
def java(request: pytest.FixtureRequest) -> Java:
    """Each version in turn, for what must hold against both."""
    fixture = f"java_{request.param.replace('.', '')}"
    found: Java = request.getfixturevalue(fixture)
    return found


@pytest.fixture(scope="package")
def java_cluster_540(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A nameserver and a broker of RocketMQ 5.4.0, shared by all: stop nothing."""
    yield from cluster("5.4.0", tmp_path_factory)


@pytest.fixture(scope="package")
def java_cluster_497(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A nameserver and a broker of RocketMQ 4.9.7, shared by all: stop nothing."""
    yield from cluster("4.9.7", tmp_path_factory)


@pytest.fixture(params=counterparts.ROCKETMQ_VERSIONS, ids=lambda version: f"on-{version}")
def java_cluster(request: pytest.FixtureRequest) -> JavaCluster:
    """The shared cluster of each version in turn, for what must hold on both."""
    fixture = f"java_cluster_{request.param.replace('.', '')}"
    found: JavaCluster = request.getfixturevalue(fixture)
    return found


@pytest.fixture(scope="session")
def needs_etcd() -> None:
    """Skip what needs etcd where there is none."""
    if counterparts.etcd_command() is None:
        decline("no etcd on the PATH nor in .counterparts")


@pytest.fixture(scope="session")
def needs_faketime() -> None:
    """Skip what sets clocks of processes where there is no libfaketime."""
    if counterparts.faketime_library() is None:
        decline("no libfaketime in /usr/lib nor in .counterparts")


@pytest.fixture(scope="module")
def our_cluster() -> Iterator[embedded.RunningCluster]:
    """A nameserver and a broker of ours, shared by a module; each delay level is a second."""
    settings = {
        "listenPort": str(free_port(below=2, above=1)),
        "messageDelayLevel": " ".join(["1s"] * 18),
    }
    with embedded.start(settings=settings) as running:
        yield running


@pytest.fixture
def team(java: Java, our_cluster: embedded.RunningCluster) -> Team:
    """Clients of each Java version in turn, on our cluster."""
    return Team(java, our_cluster.nameserver, our_cluster.brokers)


@pytest.fixture(params=["5.4.0 on ours", "4.9.7 on ours", "5.4.0 on java's"])
def place(request: pytest.FixtureRequest) -> Team:
    """Clients of each Java version on our cluster, and of one on Java's own."""
    version, _, owner = str(request.param).split()
    java: Java = request.getfixturevalue(f"java_{version.replace('.', '')}")
    if owner == "ours":
        ours: embedded.RunningCluster = request.getfixturevalue("our_cluster")
        return Team(java, ours.nameserver, ours.brokers)
    return Team.on_java(java, request.getfixturevalue("java_cluster_540"))


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, and a certificate of it for servers on this machine."""
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def chance() -> Chance:
    """A source of cases, seeded anew each run; pytest shows the seed of a test that fails."""
    seed = int(os.environ.get("ORBITMQ_SEED") or random.SystemRandom().randrange(2**32))
    print(f"to repeat this run: ORBITMQ_SEED={seed}")
    return Chance(seed)


def host(version: str, temporary: pytest.TempPathFactory) -> Iterator[Java]:
    """Start a host for a version, and end it after the last test."""
    why = counterparts.missing_for(version)
    if why is None and importlib.util.find_spec("jpype") is None:
        why = "JPype is not installed"
    home = counterparts.java_home()
    if why is not None or home is None:
        decline(why or "no Java")
    directory = temporary.mktemp(f"rocketmq-{version}")
    with Java(
        version, jars=counterparts.jars_of(version), java_home=home, home=directory
    ) as running:
        yield running


def cluster(version: str, temporary: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """Start a nameserver and a broker of a version, and end them after the last test."""
    if (why := counterparts.missing_for(version)) is not None:
        decline(why)
    usual = {"tls.server.mode": "permissive"}  # as Java has it, if nobody says otherwise
    with JavaCluster(
        version, temporary.mktemp(f"cluster-{version}"), jvm_properties=usual
    ) as running:
        yield running


def decline(why: str) -> NoReturn:
    """Skip the test with the reason, or fail it where the counterparts are required."""
    if counterparts.required():
        pytest.fail(f"ORBITMQ_INTEROP=require, yet {why}: run 'make counterparts'")
    pytest.skip(f"{why}: run 'make counterparts'")


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaNameserver]:
    """A nameserver for brokers that a module starts, and starts again, itself."""
    why = counterparts.missing_for("5.4.0")
    if why is not None:
        decline(why)
    with JavaNameserver("5.4.0", tmp_path_factory.mktemp("nameserver")) as running:
        yield running
        running.kill()
