"""The tables of what faults did."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.chaos.history import Judged, JudgedRound
from bench.chaos.plan import CONFIGURATIONS, Fault
from bench.chaos.summary import summary_of
from bench.elections import LEASES
from bench.report.reliability import reliability
from bench.report.text import BEGIN, END

ROUND = JudgedRound(
    Fault.MASTER_KILLED, acknowledged=1_234, lost=["a-1"], weaker=2, stored_twice=3, outage_s=1.25
)


def document(tmp_path: Path, names: Sequence[str] = ("both", "promoted")) -> str:
    found = Judged([ROUND, ROUND], ["moved: a-7"])
    summaries = [
        summary_of(CONFIGURATIONS["both"], found, 60.0),
        summary_of(CONFIGURATIONS["small-disk"], Judged([], []), 0.0, skipped="no mount"),
    ]
    summaries[-1] = msgspec.structs.replace(summaries[-1], date="2026-11-19")
    result = {"machine": {"cores": 2}, "configurations": msgspec.to_builtins(summaries)}
    (tmp_path / "chaos.json").write_text(json.dumps(result))
    spread = {"median": 2.0, "least": 1.0, "most": 3.0}
    row = {"ours": spread, "theirs": spread, "ratio": spread}
    copies = {
        "machine": {"cores": 2},
        "date": "2026-11-19",
        "java": "5.4.0",
        "sizes": {"log_mb": 1_000},
        "rows": [{"name": name, **row} for name in names],
        "copies": {"orbitmq's slave": {"mb_per_s": spread, "cpu_ms_per_mb": spread}},
    }
    (tmp_path / "replicate.json").write_text(json.dumps(copies))
    return reliability(f"before\n{BEGIN}\nold\n{END}\nafter", tmp_path)


def test_each_fault_has_a_line_and_losses_are_shown(tmp_path: Path) -> None:
    text = document(tmp_path)
    assert text.startswith(f"before\n{BEGIN}\n1 minutes on 2 cores, 2026-11-19")
    assert text.endswith(f"{END}\nafter")
    assert "**SYNC_FLUSH, SYNC_MASTER, inSyncReplicas=2**" in text
    assert f"| {Fault.MASTER_KILLED} | 2 | 2,468 | 2 | 4 | 0 | 6 | 0 | 0 | 1.25 | 1.25 |" in text
    assert "| **all** | **2** | **2,468** | **2** |" in text


def test_broken_laws_and_what_did_not_run_are_said(tmp_path: Path) -> None:
    text = document(tmp_path)
    assert "Broken: moved: a-7" in text
    assert "small disks**\n\nNot run: no mount" in text


def test_what_a_copy_costs_is_compared_with_java(tmp_path: Path) -> None:
    text = document(tmp_path)
    cost = "2.00 (1.00–3.00)"
    assert f"| CPU of both | {cost} µs | {cost} µs | **2.00** (1.00–3.00) | ≤ 0.5 | NO |" in text
    assert f"{cost} ms | **2.00** (1.00–3.00) | – | – |" in text
    assert f"| orbitmq's slave | {cost} | {cost} |" in text


def test_deaths_of_elected_masters_are_explained_once_they_were_measured(tmp_path: Path) -> None:
    assert "elected groups" not in document(tmp_path)
    text = document(tmp_path, ("both", *LEASES))
    assert text.count("The elected groups have two brokers each") == 1
    assert "| first send after the death of an elected master | 2.00 (1.00–3.00) ms |" in text
