"""The demo is the first thing a newcomer sees: it works, is quiet, and fits a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.demo.run import fresh_directory, run
from orbitmq.errors import InvalidInput

TIMEOUT_S = 280  # half a minute, and longer where others are at work
ORDERS = 20
MESSAGES = 59  # what happens to them: the shop's events are the same in each run


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_whole_demo_in_eighty_columns(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "orbitmq", "demo", "--orders", str(ORDERS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
    )
    assert ran.stderr == ""
    assert ran.returncode == 0
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 79
    assert f"placed      {ORDERS:>12}" in ran.stdout
    assert "Topic and files have the same rows, in order for each customer." in lines
    assert any(line.startswith(f"messages sent           {MESSAGES},") for line in lines)
    assert "The broker's key index finds order o-00000: placed, paid, shipped." in lines
    assert f"{MESSAGES} found, 0 lost, 0 duplicated, 0 out of order." in lines
    assert any(f" an archive of {MESSAGES} rows in " in line for line in lines)
    assert "report   orbitmq-demo/report.html" in lines
    page = (tmp_path / "orbitmq-demo" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert ">equal<" in page
    assert any((tmp_path / "orbitmq-demo" / "orders").glob("*.parquet"))


def test_its_directory_is_replaced(tmp_path: Path) -> None:
    home = fresh_directory(tmp_path / "below" / "demo")
    (home / "old").touch()
    assert [path.name for path in fresh_directory(home).iterdir()] == [".orbitmq-demo"]


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert fresh_directory(tmp_path) == tmp_path


@pytest.mark.parametrize("name", [".", "precious.txt"])
def test_files_that_are_not_the_demos_are_not_deleted(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious.txt").write_text("precious")
    with pytest.raises(InvalidInput, match="has files that are not the demo's"):
        run(str(tmp_path / name), orders=1)
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_a_shop_without_orders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--orders is 0; it must be at least 1"):
        run(str(tmp_path / "demo"), orders=0)
    assert not (tmp_path / "demo").exists()
