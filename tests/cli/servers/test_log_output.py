import argparse
import json
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.cli.servers.log_output import JsonLines, add_log_options, log_arguments
from tests.cli.running_servers import serving
from tests.interop.waiting import until


def record(name: str = "orbitmq.broker", **more: object) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "", 1, "%d of %s", (3, "grün\n"), None)
    made.created, made.process = 1_700_000_000.123, 4711
    made.__dict__.update(more)
    return made


def test_a_line_of_json_has_the_fields_of_a_record() -> None:
    line = JsonLines("broker-a").format(record())
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "WARNING",
        "logger": "orbitmq.broker",
        "message": "3 of grün\n",
        "process": 4711,
        "broker": "broker-a",
    }


def test_a_nameserver_in_the_same_process_is_not_the_broker() -> None:
    assert "broker" not in json.loads(JsonLines("broker-a").format(record("orbitmq.nameserver")))


def test_an_exception_is_in_the_same_line() -> None:
    try:
        raise ValueError("the cause")
    except ValueError:
        line = JsonLines().format(record(exc_info=sys.exc_info(), stack_info="Stack\n  f()"))
    assert "\n" not in line
    found = json.loads(line)
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("ValueError: the cause")
    assert found["stack"] == "Stack\n  f()"


def test_another_command_gets_the_same_options() -> None:
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    for given in ([], ["--log-format", "json", "--log-file", "x.log"]):
        parsed = parser.parse_args(given)
        assert parser.parse_args(log_arguments(parsed)) == parsed


def test_a_file_that_cannot_be_written_takes_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["nameserver", "--log-file", f"{tmp_path}/none/log"]) == 2
    assert capfd.readouterr().err == (
        f"orbitmq: can't write the log to {tmp_path}/none/log: No such file or directory\n"
    )


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_file_name_that_is_no_utf_8_can_be_logged(tmp_path: Path, log_format: str) -> None:
    log, conf = tmp_path / "log", os.fsdecode(os.fsencode(tmp_path) + b"/\xff.conf")
    Path(conf).write_text("listenPrt=0\n")
    with serving(
        "broker", "-c", conf, f"--log-format={log_format}", "--log-file", str(log),
        "--set=listenPort=0", f"--set=storePathRootDir={tmp_path}/store",
    ) as server:  # fmt: skip
        assert server.ready_line().startswith("ready")
        server.process.terminate()
        assert server.end().logged == ""
    (line,) = (line for line in log.read_text().splitlines() if "did you mean listenPort" in line)
    assert r"\udcff.conf:1: listenPrt" in line
    assert log_format == "text" or json.loads(line)["message"].startswith(conf)


def test_a_log_file_that_is_moved_is_begun_again(tmp_path: Path) -> None:
    log, conf = tmp_path / "broker.log", tmp_path / "broker.conf"
    conf.write_text("listenPort=0\nbrokerName=broker-x\n")
    options = ("-c", str(conf), "--log-format=json", "--log-file", str(log))
    with serving("broker", *options, f"--set=storePathRootDir={tmp_path}/store") as server:
        assert server.ready_line().startswith("ready")
        log.rename(tmp_path / "broker.log.1")
        server.process.send_signal(signal.SIGHUP)
        until(log.exists, what="another log file")
        server.process.terminate()
        assert server.end().logged == ""
    for name in ("broker.log.1", "broker.log"):
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert {line["broker"] for line in lines} == {"broker-x"}
