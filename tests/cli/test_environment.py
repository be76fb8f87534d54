from pathlib import Path

import pytest

from orbitmq.broker.settings import KEYS
from orbitmq.cli.environment import of_client, of_server, variable
from orbitmq.client.settings import CLIENT_NAMES, PRODUCER_NAMES
from orbitmq.settings import Property
from tests.cli.running_servers import serving

NAMES = {**CLIENT_NAMES, **PRODUCER_NAMES}


def test_each_setting_and_each_key_has_a_variable_of_its_own() -> None:
    fields = {*CLIENT_NAMES.values(), *PRODUCER_NAMES.values()}
    assert len({variable(field) for field in fields}) == len(fields)
    assert len({variable(key) for key in KEYS}) == len(set(KEYS))


def test_a_variable_gives_the_first_property_of_its_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORBITMQ_NAMESERVER", " names:9876 ")
    monkeypatch.setenv("ORBITMQ_SEND_TIMEOUT_MS", "500")
    assert of_client(NAMES) == [
        Property("namesrvAddr", "names:9876", "ORBITMQ_NAMESERVER"),
        Property("sendMsgTimeout", "500", "ORBITMQ_SEND_TIMEOUT_MS"),
    ]


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITMQ_BROKER_NAME", " ")
    assert of_server(["brokerName"]) == []


def test_servers_read_them_and_options_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITMQ_LISTEN_PORT", "0")
    monkeypatch.setenv("ORBITMQ_STORE_PATH_ROOT_DIR", str(tmp_path / "from-environment"))
    monkeypatch.setenv("ORBITMQ_BROKER_NAME", "not-this-one")
    small = ("--set", "mappedFileSizeCommitLog=8388608", "--set", "brokerName=broker-x")
    with serving("broker", *small) as server:
        assert server.ready_line().startswith("ready broker=127.0.0.1:")
        assert (tmp_path / "from-environment" / "commitlog").is_dir()
        server.process.terminate()
        assert "broker broker-x of " in server.end().logged
    with serving("nameserver") as server:
        assert server.ready_line() not in ("", "ready nameserver=127.0.0.1:9876")
