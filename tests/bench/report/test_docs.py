import msgspec
import pytest

from bench.report import docs
from bench.report.docs import performance, readme
from bench.report.text import BEGIN, END
from bench.rows import BY_NAME, ROWS
from tests.bench.report.figures import result_of, run_of


def test_each_row_is_in_the_document_losing_ones_included() -> None:
    text = performance(run_of(5.0))
    assert all(f"| {row.work}" in text for row in ROWS)
    assert "| ≤ 0.35 | NO |" in text
    assert "Java broker: 7 rounds; the last two differed by 3%" in text
    assert "9.00 at 5,000" in text


def test_a_quick_run_is_called_one() -> None:
    assert "quick run" in performance(run_of(kind="quick"))
    assert "quick run" not in performance(run_of())


def test_figures_replace_what_is_between_the_markers() -> None:
    before = f"# orbitmq\n{BEGIN}\nold figures\n{END}\nmore\n"
    text = readme(run_of(), before)
    assert text.startswith("# orbitmq\n")
    assert text.endswith(f"{END}\nmore\n")
    assert "old figures" not in text
    assert (
        "\n- **broker CPU**, send, 1 connection, 64 in flight: 8.00 µs, Java 20.0 (0.40)\n" in text
    )
    assert readme(run_of(), text) == text


def test_the_worst_comparison_of_a_group_is_named() -> None:
    run = run_of(0.4)
    losing = next(row.name for row in ROWS if row.work == "delivery time, delivered, pulled")
    assert not BY_NAME[losing].headline
    rows = [result_of(BY_NAME[losing], 1.5) if one.name == losing else one for one in run.rows]
    text = readme(msgspec.structs.replace(run, rows=tuple(rows)), f"{BEGIN}{END}")
    assert "(0.40); at worst delivery time, delivered, pulled: 30.0 µs, Java 20.0 (1.50)\n" in text
    more = readme(run_of(), f"{BEGIN}{END}")
    assert "at worst" not in more


def test_ratios_with_the_kernel_have_a_column() -> None:
    compiled = run_of(0.1)
    fewer = msgspec.structs.replace(compiled, rows=compiled.rows[:1])
    text = performance(run_of(0.4), fewer)
    assert "| 0.40 | 0.10 | ≤ 0.35 |" in text  # the first row
    assert "| 0.40 | – | ≤ 0.4 |" in text
    assert "ratio with the kernel" not in performance(run_of(0.4))


def test_a_text_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="figures"):
        readme(run_of(), "# orbitmq\n")


def test_the_committed_documents_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--check"]) == 0, capsys.readouterr().out
