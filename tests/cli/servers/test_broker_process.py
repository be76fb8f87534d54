"""``orbitmq broker`` as a shell sees it."""

import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.broker.settings import LiveSettings
from orbitmq.cli.main import main
from orbitmq.cli.servers.broker_process import warn_about_auto_create
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.settings import from_arguments
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.json.properties_text import properties_from_text
from tests.broker.exchanges import pulled, sent
from tests.cli.running_servers import END_SECONDS, serving
from tests.store.logs import incoming

CONF = """\
brokerClusterName = shop
brokerName=broker-x
# the rest is small, for a test
listenPort=0
mappedFileSizeCommitLog=8388608
flushDiskTyp=SYNC_FLUSH
"""


def test_a_java_broker_conf_works_and_keeps_what_operators_change(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    arguments = ("broker", "-c", str(file), "--set", f"storePathRootDir={tmp_path}/store")
    for round_ in range(2):
        with serving(*arguments) as server:
            properties, _, address = server.ready_line().partition("=")
            assert properties == "ready broker"
            with BlockingConnection(Address.parse(address)) as broker:
                assert sent(broker, "orders", b"paid") == round_
                assert len(pulled(broker, "orders")) == round_ + 1
                assert (
                    properties_from_text(
                        broker.request(NoFields(), code=RequestCode.GET_BROKER_CONFIG).body
                    )["fileReservedTime"]
                    == ("72", "48")[round_]
                )
                change = b"fileReservedTime=48\n"
                broker.request(NoFields(), change, code=RequestCode.UPDATE_BROKER_CONFIG)
                assert file.read_text() == CONF + change.decode()
            server.process.terminate()
            ended = server.end()
        assert (ended.status, ended.printed) == (0, "")
        assert f"{file}:6: flushDiskTyp is not known here" in ended.logged
        assert "did you mean flushDiskType?" in ended.logged
        assert "Traceback" not in ended.logged


def test_a_killed_broker_recovers(tmp_path: Path) -> None:
    arguments = (
        *("broker", "--set=listenPort=0", f"--set=storePathRootDir={tmp_path}"),
        "--set=waitTimeMillsInSendQueue=10000",  # a busy machine is no reason to refuse
    )
    small = "--set=mappedFileSizeCommitLog=8388608"
    with serving(*arguments, small) as server:
        address = server.ready_line().partition("=")[2]
        with BlockingConnection(Address.parse(address)) as broker:
            for number in range(100):
                assert sent(broker, "orders", b"%d" % number) == number
        server.process.kill()
        server.end()
    with serving(*arguments, small) as server:
        address = server.ready_line().partition("=")[2]
        with BlockingConnection(Address.parse(address)) as broker:
            assert [int(message.body) for message in pulled(broker, "orders")] == [*range(100)]


def a_store_that_crashed(directory: Path) -> None:
    """Make a store as a killed broker leaves it."""
    settings = StoreSettings(segment_bytes=8_388_608)
    store = MessageStore(str(directory), settings, workers=InlineWorkers())
    store.open()
    store.append([incoming(bytes(10_000)) for _ in range(300)])
    store.close()
    (directory / "abort").touch()


def start_and_stop(directory: Path, stderr: int) -> "subprocess.Popen[bytes]":
    """Run a broker that stops as soon as it has started."""
    properties = [
        f"storePathRootDir={directory}",
        "listenPort=0",
        "mappedFileSizeCommitLog=8388608",
    ]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "orbitmq.cli.main", "broker", "--stop-at-eof"),
            *(f"--set={one}" for one in properties),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def read_all(terminal: int) -> str:
    """Return what is written to a terminal until all processes have closed it."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the other end is closed
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def test_a_recovery_draws_a_bar_on_a_terminal(tmp_path: Path) -> None:
    a_store_that_crashed(tmp_path)
    ours, its = pty.openpty()
    try:
        with start_and_stop(tmp_path, its) as process:
            os.close(its)
            assert process.stdin is not None
            process.stdin.close()
            drawn = read_all(ours)
    finally:
        os.close(ours)
    assert process.returncode == 0
    assert "was not stopped cleanly" in drawn
    assert "\rrecovering  " in drawn
    _, done, after = drawn.rpartition("100%")
    assert done
    assert "\r\x1b[K" in after  # the line is gone when others follow
    assert "recovering  " not in after


def test_a_recovery_draws_nothing_into_a_pipe(tmp_path: Path) -> None:
    a_store_that_crashed(tmp_path)
    with start_and_stop(tmp_path, subprocess.PIPE) as process:
        _, logged = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0
    assert b"was not stopped cleanly" in logged
    assert b"recovering  " not in logged
    assert b"\r" not in logged
    assert b"\x1b" not in logged


AUTO_CREATE = "autoCreateTopicEnable is true: any client that reaches 0.0.0.0 creates a topic"


@pytest.mark.parametrize(
    ("properties", "warns"),
    [
        (["listenHost=0.0.0.0"], True),
        (["listenHost=0.0.0.0", "autoCreateTopicEnable=false"], False),
        (["listenHost=127.0.0.1"], False),
        (["listenHost=localhost"], False),
    ],
)
def test_automatic_topics_are_a_warning_if_other_machines_reach_the_broker(
    properties: list[str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "orbitmq.broker"):
        warn_about_auto_create(LiveSettings.load(from_arguments(properties)))
    assert [AUTO_CREATE in line for line in caplog.messages] == [True] * warns


def test_a_broker_that_other_machines_reach_logs_the_warning_when_it_starts(tmp_path: Path) -> None:
    properties = ("listenHost=0.0.0.0", "listenPort=0", f"storePathRootDir={tmp_path}")
    small = "mappedFileSizeCommitLog=8388608"
    with serving(
        "broker", "--insecure", *(f"--set={one}" for one in (*properties, small))
    ) as server:
        assert server.ready_line().startswith("ready broker=")
        server.process.terminate()
        ended = server.end()
    assert ended.status == 0
    assert AUTO_CREATE in ended.logged


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set=listenHost=0.0.0.0"], "add --insecure if the network is trusted"),
        (["--set=brokerRole=SLAVE"], "give the slave a brokerId of 1 or more"),
        (["--set=listenPort=many"], "--set: listenPort: 'many' is not a whole number"),
        (["-c", "/no/such/file"], "/no/such/file can't be read: No such file"),
    ],
)
def test_an_invalid_argument_takes_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.startswith("orbitmq: ")
    assert printed.err.count("\n") == 1


def test_the_error_names_the_line_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nfileReservedTime=three days\n")
    assert main(["broker", "-c", str(file)]) == 2
    expected = f"orbitmq: {file}:2: fileReservedTime: 'three days' is not a whole number\n"
    assert capsys.readouterr().err == expected
