"""Each value, and where it comes from."""

import json
import os
from pathlib import Path

import pytest

from orbitmq.cli.commands.settings import Setting, setting_lines
from orbitmq.cli.main import main


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("ORBITMQ_") or name == "NAMESRV_ADDR":
            monkeypatch.delenv(name)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    assert main(["settings", *arguments]) == status
    return capsys.readouterr().out.splitlines()


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str, str]]:
    rows = json.loads("\n".join(shown(capsys, "--json", *arguments)))
    return {one["setting"]: (one["value"], one["from"]) for one in rows}


def test_option_environment_file_and_default_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def address() -> tuple[str, str]:
        return found(capsys, "namesrvAddr", *options)["namesrvAddr"]

    options: tuple[str, ...] = ()
    assert address() == ("127.0.0.1:9876", "default")
    monkeypatch.setenv("NAMESRV_ADDR", "java:9876")
    assert address() == ("java:9876", "NAMESRV_ADDR")
    file = tmp_path / "client.conf"
    file.write_text("# ours\nnamesrvAddr=file:9876\n")
    monkeypatch.setenv("ORBITMQ_CONFIG", str(file))
    assert address() == ("file:9876", f"{file}:2")
    monkeypatch.setenv("ORBITMQ_NAMESERVER", "variable:9876")
    assert address() == ("variable:9876", "ORBITMQ_NAMESERVER")
    options = ("--set", "namesrvAddr=set:9876")
    assert address() == ("set:9876", "--set")
    options += ("--nameserver", "option:9876")
    assert address() == ("option:9876", "--nameserver")


def test_only_what_is_not_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBITMQ_ACCESS_KEY", "alice")
    monkeypatch.setenv("ORBITMQ_SECRET_KEY", "open sesame")
    assert shown(capsys, "--changed") == [
        "SETTING    VALUE  FROM",
        "accessKey  alice  ORBITMQ_ACCESS_KEY",
        "secretKey  …      ORBITMQ_SECRET_KEY",
    ]


def test_those_of_a_producer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found(capsys, "--of", "producer", "--set", "sendMsgTimeout=500")
    assert rows["sendMsgTimeout"] == ("500", "--set")
    assert rows["retryTimesWhenSendFailed"] == ("2", "default")
    assert "namesrvAddr" not in rows


def test_those_of_a_broker_and_a_nameserver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=broker-x\nfileReservedTime=24\n")
    monkeypatch.setenv("ORBITMQ_FILE_RESERVED_TIME", "48")
    changed = ("--of", "broker", "-c", str(file), "--changed")
    assert found(capsys, *changed) == {
        "brokerName": ("broker-x", f"{file}:1"),
        "fileReservedTime": ("48", "ORBITMQ_FILE_RESERVED_TIME"),
    }
    assert found(capsys, "--of", "nameserver")["listenPort"] == ("9876", "default")
    monkeypatch.setenv("ORBITMQ_ETCD_PASSWORD", "open sesame")
    secret = found(capsys, "--of", "broker", "--set", "etcdUser=broker", "etcdPassword")
    assert secret == {"etcdPassword": ("…", "ORBITMQ_ETCD_PASSWORD")}


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "namesrvAdr", "accessKey", "fileReservedTime", "x"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "SETTING    VALUE  FROM\naccessKey  -      default\n"
    assert printed.err.splitlines() == [
        "orbitmq: a client has no setting namesrvAdr; did you mean namesrvAddr?",
        "orbitmq: a client has no setting fileReservedTime; see --of broker",
        "orbitmq: a client has no setting x; see docs/settings.md",
    ]
    assert shown(capsys, "nosuch", status=1) == []
    assert main(["settings", "nosuch", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["exit_status"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--of", "broker", "--nameserver", "a:1"], "give --set namesrvAddr=… with --of broker"),
        (["--set", "useTLS=maybe"], "--set: useTLS: 'maybe' is not true or false"),
        (["-c", "/no/such/file"], "/no/such/file can't be read"),
    ],
)
def test_what_is_wrong_takes_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["settings", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_long_values_fit() -> None:
    row = Setting("messageDelayLevel", "1s 5s 10s 30s " * 20, "/etc/" + "x" * 60, "ORBITMQ_X")
    assert max(map(len, setting_lines([row]))) == 80
