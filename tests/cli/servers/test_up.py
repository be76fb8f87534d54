"""``orbitmq up`` as a shell sees it: one process, or several under a supervisor."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.cli.main import main
from orbitmq.errors import ConnectFailed
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.transport.own_host import own_host
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.json.properties_text import properties_from_text
from tests.broker.exchanges import pull_header, pulled, sent
from tests.cli.running_servers import END_SECONDS, Serving, serving
from tests.interop.waiting import until

PORTS = ("--nameserver-port", "0", "--broker-port", "0", "--no-dashboard")
SMALL = ("--set", "mappedFileSizeCommitLog=8388608")


def known_brokers(nameserver: str) -> dict[str, str]:
    """Return the address of each broker, by name, as a nameserver knows it."""
    with BlockingConnection(Address.parse(nameserver)) as connection:
        answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
    table = ClusterInfo.from_json(answer.body).broker_addr_table
    return {name: broker.broker_addrs[0] for name, broker in table.items()}


def test_the_ready_line_has_all_addresses_and_a_signal_stops_it(tmp_path: Path) -> None:
    with serving("up", *PORTS, *SMALL, "--store", str(tmp_path)) as server:
        match = re.fullmatch(r"ready nameserver=(\S+) broker=(\S+)", server.ready_line())
        assert match is not None
        nameserver, broker = match.groups()
        assert known_brokers(nameserver) == {"broker-a": broker}
        with BlockingConnection(Address.parse(nameserver)) as connection:
            assert connection.request(GetRouteInfo(topic="RMQ_SYS_TRACE_TOPIC")).body
        with BlockingConnection(Address.parse(broker)) as connection:
            sent(connection, "orders", b"paid")
            assert [message.body for message in pulled(connection, "orders")] == [b"paid"]
            by_sql = replace(pull_header("orders", 0), subscription="TRUE", expression_type="SQL92")
            assert connection.request(by_sql).code == ResponseCode.SUCCESS
        server.process.send_signal(signal.SIGINT)
        ended = server.end()
    assert (ended.status, ended.printed) == (0, "")
    assert "Traceback" not in ended.logged
    assert (tmp_path / "commitlog").is_dir()
    assert not (tmp_path / "abort").exists()


def test_a_log_that_is_missing_stops_the_start_unless_its_loss_is_accepted(tmp_path: Path) -> None:
    up = ("up", *PORTS, *SMALL, "--store", str(tmp_path))
    with serving(*up) as server:
        broker = server.ready_line().rpartition("=")[2]
        with BlockingConnection(Address.parse(broker)) as connection:
            sent(connection, "orders", b"paid")
        server.process.send_signal(signal.SIGTERM)
        assert server.end().status == 0
    (tmp_path / "commitlog").rename(tmp_path / "unmounted")
    with serving(*up) as server:
        assert server.ready_line() == ""
        ended = server.end()
    assert ended.status == 2
    assert "files of the log are missing" in ended.logged.splitlines()[-1]
    with serving(*up, "--accept-loss") as server:
        broker = server.ready_line().rpartition("=")[2]
        with BlockingConnection(Address.parse(broker)) as connection:
            assert sent(connection, "orders", b"paid again") == 1
        server.process.send_signal(signal.SIGTERM)
        assert server.end().status == 0


def test_the_ready_line_as_json(tmp_path: Path) -> None:
    with serving("up", *PORTS, *SMALL, "--store", str(tmp_path), "--json") as server:
        ready = json.loads(server.ready_line())
        assert list(known_brokers(ready["nameserver"]).values()) == ready["brokers"]


def test_topics_of_the_command_exist_when_it_is_ready(tmp_path: Path) -> None:
    topics = ("--topic", "orders:3", "--topic", "payments", "--quiet")
    up = ("up", *PORTS, *SMALL, "--store", str(tmp_path), *topics)
    for _ in range(2):  # the second time they exist
        with serving(*up) as server:
            nameserver = server.ready_line().split()[1].partition("=")[2]
            assert queues_of(nameserver, "orders") == 3
            assert queues_of(nameserver, "payments") == 4
            server.process.terminate()
            ended = server.end()
        assert (ended.status, ended.logged) == (0, "")


def queues_of(nameserver: str, topic: str) -> int:
    with BlockingConnection(Address.parse(nameserver)) as connection:
        answer = connection.request(GetRouteInfo(topic=topic))
    return TopicRouteData.from_json(answer.body).queue_datas[0].write_queue_nums


def test_the_ready_line_has_addresses_that_clients_can_use(tmp_path: Path) -> None:
    everywhere = ("--host", "0.0.0.0", "--insecure", "--json", "--log-level", "ERROR")
    with serving("up", *PORTS, *SMALL, "--store", str(tmp_path), *everywhere) as server:
        ready = json.loads(server.ready_line())
        assert Address.parse(ready["nameserver"]).host == own_host()
        assert list(known_brokers(ready["nameserver"]).values()) == ready["brokers"]


def test_several_brokers_are_processes_and_one_that_dies_is_restarted(tmp_path: Path) -> None:
    with serving("up", *PORTS, *SMALL, "--brokers", "2", "--store", str(tmp_path)) as server:
        match = re.fullmatch(r"ready nameserver=(\S+) broker=(\S+),(\S+)", server.ready_line())
        assert match is not None
        nameserver, first, second = match.groups()
        assert known_brokers(nameserver) == {"broker-a": first, "broker-b": second}
        with BlockingConnection(Address.parse(first)) as connection:
            sent(connection, "orders", b"paid")
        os.kill(process_of(tmp_path / "broker-a"), signal.SIGKILL)
        address = once_back(server, nameserver, first)
        with BlockingConnection(Address.parse(address)) as connection:
            assert [message.body for message in pulled(connection, "orders")] == [b"paid"]
        server.process.terminate()
        ended = server.end()
    assert ended.status == 0
    assert "broker-a ended: killed by SIGKILL; restarting it in 0.5 s" in ended.logged
    for name in ("broker-a", "broker-b"):
        assert not (tmp_path / name / "abort").exists()


def test_brokers_stop_cleanly_if_their_supervisor_is_killed(tmp_path: Path) -> None:
    with serving("up", *PORTS, *SMALL, "--brokers", "2", "--store", str(tmp_path)) as server:
        server.ready_line()
        stores = [tmp_path / name for name in ("broker-a", "broker-b")]
        brokers = [os.pidfd_open(process_of(store)) for store in stores]
        server.process.kill()
        for broker in brokers:
            assert select.select([broker], [], [], END_SECONDS)[0], "a broker outlives it"
            os.close(broker)
    for store in stores:
        assert (store / "commitlog").is_dir()
        assert not (store / "abort").exists()


@pytest.mark.parametrize("brokers", ["1", "2"])
def test_a_closed_terminal_stops_it_cleanly(brokers: str, tmp_path: Path) -> None:
    ours, its = pty.openpty()
    arguments = ("up", *PORTS, *SMALL, "--brokers", brokers, "--store", str(tmp_path))
    # The first terminal that the leader of a session opens sends it a SIGHUP when it is closed.
    on_terminal = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(its)]
    command = [*on_terminal, sys.executable, "-m", "orbitmq.cli.main", *arguments]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            with open(ours, "rb", buffering=0) as terminal:
                while not terminal.readline().startswith(b"ready"):
                    assert process.poll() is None
                stores = [abort.parent for abort in tmp_path.rglob("abort")]
                assert len(stores) == int(brokers)
            os.close(its)
            assert process.wait(END_SECONDS) == 0
        finally:
            process.kill()
    assert [store for store in stores if (store / "abort").exists()] == []


def setting_of(broker: str, name: str) -> str:
    """Return a setting of a running broker."""
    with BlockingConnection(Address.parse(broker)) as connection:
        answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_CONFIG)
    return properties_from_text(answer.body)[name]


def change_setting(broker: str, line: str) -> None:
    with BlockingConnection(Address.parse(broker)) as connection:
        connection.request(NoFields(), line.encode(), code=RequestCode.UPDATE_BROKER_CONFIG)


@pytest.mark.parametrize("brokers", ["1", "2"])
def test_a_hangup_reloads_the_file_of_all_brokers(brokers: str, tmp_path: Path) -> None:
    file, log = tmp_path / "broker.conf", tmp_path / "log"
    file.write_text("listenPort=1\nmaxMessageSize=1000\nenablePropertyFilter=false\n")
    options = ("--brokers", brokers, "-c", str(file), "--log-file", str(log))
    with serving("up", *PORTS, *SMALL, "--store", str(tmp_path / "store"), *options) as server:
        found = server.ready_line().rpartition("=")[2].split(",")
        assert [setting_of(one, "maxMessageSize") for one in found] == ["1000"] * int(brokers)
        assert [setting_of(one, "enablePropertyFilter") for one in found] == ["false"] * len(found)
        for number, one in enumerate(found):
            change_setting(one, f"waitTimeMillsInSendQueue={300 + number}")
        assert "waitTimeMillsInSendQueue=" in file.read_text()
        file.write_text("maxMessageSize=2000\nenablePropertyFilter=false\n")
        server.process.send_signal(signal.SIGHUP)
        until(
            lambda: {setting_of(one, "maxMessageSize") for one in found} == {"2000"},
            what="the reload",
        )
        server.process.terminate()
        assert server.end().status == 0
    logged = log.read_text()
    assert f"{file}:1: listenPort has no effect in orbitmq up: use --broker-port" in logged
    assert logged.count("settings reloaded; changed: maxMessageSize") == int(brokers)


def process_of(store: Path) -> int:
    """Return the process that uses a store, from its abort file."""
    return int((store / "abort").read_text())


def once_back(server: Serving, nameserver: str, before: str) -> str:
    """Return where broker-a listens after its restart: port 0 picks another port."""
    while server.process.poll() is None:
        address = known_brokers(nameserver).get("broker-a", before)
        if address != before:
            try:
                BlockingConnection(Address.parse(address)).close()
            except ConnectFailed:
                continue
            return address
    raise AssertionError("the supervisor ended")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--brokers", "0"], "--brokers is 0; it must be from 1 to 26"),
        (["--nameserver-port", "-1"], "--nameserver-port is -1; it must be from 0 to 65535"),
        (["--broker-port", "80000"], "--broker-port is 80000; it must be from 0 to 65535"),
        (
            ["--brokers", "3", "--broker-port", "65530"],
            "--broker-port is 65530; it must be from 0 to 65515",
        ),
        (["--topic", "orders:0"], "'orders:0' is not NAME:QUEUES with 1 to 1024 queues"),
        (["--topic", "or ders"], "topic 'or ders' holds ' '"),
        (["--quiet", "--log-level", "DEBUG"], "not allowed with argument"),
        (["--host", "0.0.0.0"], "add --insecure"),
        (["--set", "listenPort"], "write it as key=value"),
        (["--brokers", "2", "--set", "storePathCommitLog=/x"], "would be the log of all brokers"),
        (["--set", "storePathCommitLog=/x,/y"], "a log in several directories, as Java has it"),
    ],
)
def test_an_invalid_argument_takes_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", *PORTS, "--store", str(tmp_path), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err.splitlines()[-1]
    assert "Traceback" not in printed.err


def test_a_broker_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    (tmp_path / "broker-b").write_text("a file where a directory should be")
    with serving("up", *PORTS, *SMALL, "--brokers", "2", "--store", str(tmp_path)) as server:
        assert server.ready_line() == ""
        ended = server.end()
    assert ended.status == 2
    assert "orbitmq: broker-b ended before it was ready: exit status 2" in ended.logged
