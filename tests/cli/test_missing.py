"""What commands say when a topic, or every broker, is missing."""

import json
from collections.abc import Iterator

import pytest

from orbitmq.cli.main import main
from tests.cli.running_servers import serving


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """Run a nameserver without brokers; return its address."""
    with serving("nameserver", "--port", "0") as server:
        yield server.ready_line().partition("=")[2]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("send orders paid", 2),
        ("consume orders", 2),
        ("topic route orders", 2),
        ("topic create orders", 2),
        ("topic create orders --on broker-a", 2),
        ("topic delete orders", 2),
        ("topic list", 1),
        ("bench broker --count 1", 2),
        ("broker list", 1),
        ("cluster list", 1),
        ("cluster nodes", 1),
        ("cluster rate", 1),
    ],
)
def test_a_cluster_without_brokers_is_called_that(
    line: str, status: int, alone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "--nameserver", alone]) == status
    assert capsys.readouterr().err == (
        f"orbitmq: no broker is registered with nameserver {alone} now; start one (orbitmq broker "
        f"--set namesrvAddr={alone}), or name another nameserver (--nameserver)\n"
    )


def test_it_is_an_error_in_json_too(alone: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "list", "--json", "--nameserver", alone]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert json.loads(printed.err)["exit_status"] == 1


@pytest.mark.usefixtures("nameserver")
@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("topic delete x-9-z", "orbitmq topic list shows those that exist"),
        ("topic route orderz", "did you mean orders?"),
        ("message query x-9-z k", "orbitmq topic list shows those that exist"),
        ("consume x-9-z", "orbitmq topic create x-9-z makes it"),
        ("topic probe orderz", "did you mean orders? orbitmq topic create orderz makes it"),
    ],
)
def test_advice_fits_the_command(
    line: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", "create", "orders"]) == 0
    capsys.readouterr()
    topic = line.split()[2 if len(line.split()) > 2 else 1]
    assert main([*line.split(), "--set", "nosuch=1"]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith("orbitmq: warning: --set: nosuch is not known")
    assert error == f"orbitmq: topic {topic} is missing; {advice}"


def test_a_namespace_is_left_out(nameserver: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "show", "orders", "--set", "namespace=shop"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("orbitmq: topic orders is missing; "), nameserver


def test_a_missing_cluster_is_not_called_a_topic(
    nameserver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", "create", "orders", "--on", "nowhere"]) == 2
    told = capsys.readouterr().err
    assert "no cluster, broker or topic is named nowhere" in told, nameserver


@pytest.mark.usefixtures("nameserver")
@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("group show bililng", "bililng; did you mean billing?"),
        ("group progress x-9-z", "x-9-z; orbitmq group list shows those that exist"),
        ("offset clone bililng billing", "bililng; did you mean billing?"),
        ("offset clone billing x-9-z", "x-9-z; orbitmq group list shows those that exist"),
    ],
)
def test_a_missing_group_comes_with_the_nearest(
    line: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["group", "create", "billing"]) == 0
    capsys.readouterr()
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"orbitmq: no broker has group {advice}\n"
