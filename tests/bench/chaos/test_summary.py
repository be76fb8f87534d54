"""What came of a run, by fault."""

from bench.chaos.history import Judged, JudgedRound
from bench.chaos.plan import CONFIGURATIONS, Fault
from bench.chaos.summary import broken_promises, summary_of, summary_table

KILLED = JudgedRound(Fault.MASTER_KILLED, acknowledged=10, stored_twice=1, skipped=1, outage_s=1.0)
LOST = JudgedRound(Fault.DISK_LOST, acknowledged=5, lost=["a-1"], skipped=2, outage_s=2.0)
FOUND = Judged([KILLED, KILLED, LOST], ["moved: a-7"])


def test_rounds_of_a_fault_are_summed_up() -> None:
    killed, lost = summary_of(CONFIGURATIONS["both"], FOUND, 60.0).faults
    assert (killed.rounds, killed.acknowledged, killed.stored_twice) == (2, 20, 2)
    assert (lost.lost, lost.skipped, lost.outage_s_p50, lost.outage_s_max) == (1, 2, 2.0, 2.0)


def test_a_loss_breaks_a_promise_unless_the_settings_allow_it() -> None:
    assert broken_promises(summary_of(CONFIGURATIONS["both"], FOUND, 60.0)) == [
        f"both: 2 messages skipped: {Fault.MASTER_KILLED}",
        f"both: 1 messages lost: {Fault.DISK_LOST}",
        "both: moved: a-7",
    ]
    assert broken_promises(summary_of(CONFIGURATIONS["async"], FOUND, 60.0)) == [
        f"async: 2 messages skipped: {Fault.MASTER_KILLED}",
        "async: moved: a-7",
    ]


def test_a_table_fits_a_terminal_and_says_what_did_not_run() -> None:
    lines = summary_table(summary_of(CONFIGURATIONS["both"], FOUND, 60.0)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "moved: a-7"
    skipped = summary_of(CONFIGURATIONS["small-disk"], Judged([], []), 0.0, skipped="no mount")
    assert summary_table(skipped).endswith("not run, no mount")
