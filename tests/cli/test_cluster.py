"""The settings that commands make of their options."""

import argparse
from pathlib import Path

import pytest

from orbitmq.cli.cluster import (
    add_client_options,
    add_group_option,
    client_settings,
    pairs,
    print_found,
    producer_settings,
)
from orbitmq.cli.main import main
from orbitmq.errors import InvalidInput, InvalidSetting


def parsed(*arguments: str) -> argparse.Namespace:
    command = argparse.ArgumentParser()
    add_client_options(command)
    add_group_option(command, "orbitmq-send")
    return command.parse_args(arguments)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def test_the_default_nameserver() -> None:
    assert client_settings(parsed()).nameserver == "127.0.0.1:9876"


def test_the_environment_names_the_nameserver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "names:9876")
    assert client_settings(parsed()).nameserver == "names:9876"


def test_the_option_overrides_file_and_properties(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("namesrvAddr=one:9876\naccessKey=alice\nsecretKey=sesame\n")
    options = ("-c", str(file), "--set", "accessKey=bob")
    assert client_settings(parsed(*options)).nameserver == "one:9876"
    settings = client_settings(parsed(*options, "--nameserver", "two:9876;three:9876"))
    assert (settings.nameserver, settings.access_key) == ("two:9876;three:9876", "bob")


def test_a_nameserver_url_is_used_instead_of_the_default() -> None:
    settings = client_settings(parsed("--set", "nameserverUrl=http://names/list"))
    assert (settings.nameserver, settings.nameserver_url) == ("", "http://names/list")


@pytest.mark.parametrize(
    ("arguments", "group"),
    [
        ([], "orbitmq-send"),
        (["--set", "producerGroup=billing"], "billing"),
        (["--set", "producerGroup=billing", "--group", "night-shift"], "night-shift"),
    ],
)
def test_the_group(arguments: list[str], group: str) -> None:
    assert producer_settings(parsed(*arguments))[1].group == group


def test_connections_end_with_the_command() -> None:
    assert client_settings(parsed()).keep_open_ms == 0


def test_an_unknown_property_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    client_settings(parsed("--set", "acessKey=alice"))
    assert "did you mean accessKey?" in capsys.readouterr().err


def test_an_invalid_address() -> None:
    with pytest.raises((InvalidSetting, InvalidInput), match="no-port"):
        client_settings(parsed("--nameserver", "no-port"))


@pytest.mark.parametrize("argument", ["colour", "=blue", ""])
def test_an_argument_without_key_or_value(argument: str) -> None:
    with pytest.raises(InvalidInput, match="--property .* is not KEY=VALUE"):
        pairs([argument], "--property")


def test_json_or_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_found({"topic": "orders"}, ["orders"], as_json=False)
    print_found({"topic": "orders"}, ["orders"], as_json=True)
    assert capsys.readouterr().out == 'orders\n{\n  "topic": "orders"\n}\n'


def test_an_option_that_is_wrong_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "list", "--nameserver", "localhost"]) == 2
    assert capsys.readouterr().err == (
        "orbitmq: --nameserver: address 'localhost' is not of the form host:port, as in "
        "127.0.0.1:9876\n"
    )
    assert main(["topic", "list", "--set", "namesrvAddr=localhost"]) == 2
    assert capsys.readouterr().err.startswith("orbitmq: --set: namesrvAddr: address 'localhost' is")
