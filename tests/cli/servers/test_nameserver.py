"""``orbitmq nameserver`` as a shell sees it."""

import json
import signal
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from tests.cli.running_servers import serving
from tests.interop.waiting import until

NOWHERE = "--set=kvConfigPath="


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_a_ready_line_serves_and_stops(number: signal.Signals) -> None:
    with serving("nameserver", "--port", "0", NOWHERE) as server:
        head, _, address = server.ready_line().partition("=")
        assert head == "ready nameserver"
        with BlockingConnection(Address.parse(address)) as connection:
            answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
            assert answer.code == ResponseCode.SUCCESS
            server.process.send_signal(number)
            ended = server.end()
    assert (ended.status, ended.printed) == (0, "")
    assert "Traceback" not in ended.logged


def test_arguments_override_the_file_and_operators_change_it(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    text = f"listenPort=99999\nkvConfigPath={tmp_path}/kv.json\nlistenPrt=1\n"
    file.write_text(text)
    with serving("nameserver", "-c", str(file), "--port", "0") as server:
        head, _, address = server.ready_line().partition("=")
        assert (head, address.partition(":")[0]) == ("ready nameserver", "127.0.0.1")
        with BlockingConnection(Address.parse(address)) as connection:
            change = b"orderMessageEnable=true\n"
            connection.request(NoFields(), change, code=RequestCode.UPDATE_NAMESRV_CONFIG)
        assert file.read_text() == text + change.decode()
        server.process.terminate()
        ended = server.end()
    assert ended.status == 0
    assert f"{file}:3: listenPrt is not known here" in ended.logged
    assert "did you mean listenPort?" in ended.logged


def test_a_hangup_reloads_the_file(tmp_path: Path) -> None:
    file, log = tmp_path / "namesrv.conf", tmp_path / "log"
    file.write_text("orderMessageEnable=false\n")
    options = ("-c", str(file), "--port=0", NOWHERE, "--log-file", str(log))
    with serving("nameserver", *options) as server:
        assert server.ready_line().startswith("ready")
        file.write_text("orderMessageEnable=true\nlogLevel=WARNING\n")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "settings reloaded" in log.read_text(), what="the reload")
        server.process.terminate()
        assert server.end().status == 0
    assert "settings reloaded; changed: orderMessageEnable, logLevel" in log.read_text()


def test_the_error_for_a_port_in_use_takes_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with serving("nameserver", "--port", "0", NOWHERE) as server:
        port = server.ready_line().rpartition(":")[2]
        assert main(["nameserver", "--port", port, NOWHERE]) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert f"orbitmq: can't listen on 127.0.0.1:{port}: " in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "lets every machine that can reach it"),
        (["--port", "many"], "--port: 'many' is not a whole number"),
        (["--port", "65536"], "--port: listen_port is 65536; it must be from 0"),
        (["-c", "/no/such/file"], "/no/such/file can't be read: No such file"),
        (["--set", "listenPort"], "write it as key=value"),
    ],
)
def test_an_invalid_argument_takes_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nameserver", NOWHERE, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("orbitmq: ")
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_the_error_names_the_line_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("# mine\norderMessageEnable=yes\n")
    assert main(["nameserver", "-c", str(file)]) == 2
    expected = f"orbitmq: {file}:2: orderMessageEnable: 'yes' is not true or false\n"
    assert capsys.readouterr().err == expected


def test_the_ready_line_as_json() -> None:
    with serving("nameserver", "--port", "0", "--json") as server:
        ready = json.loads(server.ready_line())
        with BlockingConnection(Address.parse(ready["nameserver"])):
            server.process.terminate()
        assert server.end().status == 0
