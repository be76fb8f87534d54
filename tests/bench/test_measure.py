import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import measure
from bench.measure import Figure, cpu_each, in_child, report, resident_of, scratch, table


def test_a_table_has_its_first_column_to_the_left_and_numbers_to_the_right() -> None:
    assert table(["what", "µs", "rows/s"], [["records", 1.5, 1_000_000], ["all", 123.4, None]]) == (
        "what       µs     rows/s\n"
        "records  1.50  1,000,000\n"
        "all       123          –"
    )  # fmt: skip


def test_a_table_that_does_not_fit_a_terminal_is_refused() -> None:
    table(["x" * 80], [])
    with pytest.raises(ValueError, match="81 columns"):
        table(["x" * 81], [])


def test_memory_is_read_in_mb() -> None:
    status = "Name:\tpython\nVmHWM:\t  50000 kB\nRssAnon:\t 10000 kB\nRssFile:\t 20000 kB\n"
    assert resident_of(status) == (10.2, 20.5, 51.2)


def test_work_that_did_nothing_has_no_figure() -> None:
    assert cpu_each(lambda: sum(1 for _ in range(1000))) > 0
    with pytest.raises(RuntimeError, match="there were no items"):
        cpu_each(lambda: 0)


def fail(directory: str) -> None:
    Path(directory, "log").touch()
    raise KeyError


def end_this_process(_directory: str) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()  # until the handler has run


@pytest.mark.parametrize(("happens", "error"), [(fail, KeyError), (end_this_process, SystemExit)])
def test_a_scratch_directory_goes_whatever_happens(
    happens: Callable[[str], None], error: type[BaseException]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(error), scratch() as directory:
        happens(directory)
    assert not Path(directory).exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_child_returns_its_result_and_is_another_process() -> None:
    assert in_child(os.path.join, "a", "b") == "a/b"
    assert in_child(os.getpid) != os.getpid()


def test_a_failing_child_raises(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="listdir failed in its process"):
        in_child(os.listdir, "/no/such/directory")
    assert "FileNotFoundError" in capfd.readouterr().err


def test_a_report_is_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "bench" / "results")
    (tmp_path / "bench").mkdir()
    report("codec", [Figure("decoded", 2.5, 2), Figure("encoded", 0.5)])
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "decoded  2.50       2  over",
        "encoded  0.50       –",
    ]
    written = json.loads((tmp_path / "bench" / "results" / "codec.json").read_text())
    assert written["machine"]["cores"] == os.cpu_count()
    assert written["figures"][0] == {"what": "decoded", "microseconds": 2.5, "aim": 2}
