"""``orbitmq broker`` as a shell sees it."""

from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from tests.broker.exchanges import pulled, sent
from tests.cli.servers import serving

CONF = """\
brokerClusterName = shop
brokerName=broker-x
# the rest is small, for a test
listenPort=0
mappedFileSizeCommitLog=8388608
flushDiskTyp=SYNC_FLUSH
"""


def test_a_broker_conf_of_java_works_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    arguments = ("broker", "-c", str(file), "--set", f"storePathRootDir={tmp_path}/store")
    for round_ in range(2):
        with serving(*arguments) as server:
            said, _, address = server.ready_line().partition("=")
            assert said == "ready broker"
            with BlockingConnection(Address.parse(address)) as broker:
                assert sent(broker, "orders", b"paid") == round_
                assert len(pulled(broker, "orders")) == round_ + 1
            server.process.terminate()
            ended = server.end()
        assert (ended.status, ended.printed) == (0, "")
        assert f"{file}:6: flushDiskTyp is not known here" in ended.logged
        assert "did you mean flushDiskType?" in ended.logged
        assert "Traceback" not in ended.logged


def test_a_killed_broker_recovers(tmp_path: Path) -> None:
    arguments = ("broker", "--set=listenPort=0", f"--set=storePathRootDir={tmp_path}")
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set=listenHost=0.0.0.0"], "say --insecure if the network keeps others out"),
        (["--set=brokerRole=SLAVE"], "replicas are not served yet"),
        (["--set=listenPort=many"], "--set: listenPort: 'many' is not a whole number"),
        (["-c", "/no/such/file"], "/no/such/file can't be read: No such file"),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.startswith("orbitmq: ")
    assert printed.err.count("\n") == 1


def test_a_bad_line_of_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nfileReservedTime=three days\n")
    assert main(["broker", "-c", str(file)]) == 2
    told = f"orbitmq: {file}:2: fileReservedTime: 'three days' is not a whole number\n"
    assert capsys.readouterr().err == told
