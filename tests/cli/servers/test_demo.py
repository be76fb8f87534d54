"""``orbitmq demo``: its arguments, and that other commands start without Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.demo import run as demo


@pytest.mark.parametrize(
    ("given", "seconds", "orders"), [((), None, 2_000), ((), "2", 444), (("--orders", "7"), "2", 7)]
)
def test_how_many_orders_are_sent(
    given: tuple[str, ...], seconds: str | None, orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def stand_in(directory: str, orders: int, on_spark: object) -> int:
        asked.append((directory, orders))
        return 0

    monkeypatch.setattr(demo, "run", stand_in)
    if seconds is not None:
        monkeypatch.setenv("ORBITMQ_DEMO_SECONDS", seconds)
    assert main(["demo", *given]) == 0
    assert asked == [("orbitmq-demo", orders)]


@pytest.mark.parametrize("status", [0, 1])
def test_the_exit_status_is_that_of_the_comparison(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def stand_in(directory: str, orders: int, on_spark: object) -> int:
        asked.append((directory, orders))
        return status

    monkeypatch.setattr(demo, "run", stand_in)
    assert main(["demo", "--directory", "here", "--orders", "7"]) == status
    assert asked == [("here", 7)]


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious.txt").touch()
    assert main(["demo", "--directory", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"orbitmq: {tmp_path} has files that are not the demo's")


def test_other_commands_import_no_spark() -> None:
    code = "import sys; from orbitmq.cli.main import parser; parser(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow", "orbitmq.demo"} & set(ran.stdout.split())
