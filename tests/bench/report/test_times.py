from pathlib import Path

import msgspec

from bench.report.times import keep, kept, table
from bench.rows import BY_NAME
from tests.bench.report.figures import run_of

SEND = BY_NAME["broker.send"]


def test_kept_runs_are_read_from_the_oldest_on(tmp_path: Path) -> None:
    for date in ("2026-11-18 17:05 UTC", "2026-11-17", "2026-11-18 09:30 UTC"):
        keep(msgspec.structs.replace(run_of(), date=date), tmp_path)
    dates = [run.date for run in kept(tmp_path)]
    assert dates == ["2026-11-17", "2026-11-18 09:30 UTC", "2026-11-18 17:05 UTC"]


def test_each_ratio_is_beside_those_of_other_times() -> None:
    whole = run_of(0.4)
    older = msgspec.structs.replace(run_of(0.2), date="2026-11-17", rows=run_of(0.2).rows[:1])
    heads, rows = table([older, msgspec.structs.replace(whole, date="2026-11-18")])
    assert heads == ["", "2026-11-17, full", "2026-11-18, full", "least–most", "aim"]
    (send,) = (row for row in rows if row[0] == f"broker: {SEND.work}")
    assert send[1:] == ["0.20", "0.40", "0.20–0.40", SEND.aim_text]
    assert all(row[1] == "–" for row in rows if row is not send)


def test_a_compiled_run_is_beside_the_others_and_not_in_their_spread() -> None:
    kernel = {"compiled kernel": "0.1.0"}
    compiled = msgspec.structs.replace(run_of(0.1), date="now", versions=kernel)
    heads, rows = table([run_of(0.4), compiled])
    assert heads[2] == "now, full, compiled kernel"
    (send,) = (row for row in rows if row[0] == f"broker: {SEND.work}")
    assert send[1:4] == ["0.40", "0.10", "0.40–0.40"]
