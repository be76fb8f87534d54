"""SYNC_FLUSH as the kernel sees it: no acknowledgement leaves before its record is on the disk.

A writer with real threads and a real disk runs under strace. The simulated disk shows the same for
every moment of a power loss; this shows that the calls are really made, and waited for.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.store.sync_trace import CALLS, SyncAudit, traced_calls

MESSAGES = 60
LOG = "/store/commitlog"
SEGMENT = f"{LOG}/{0:020d}"


def audit(lines: list[str], directory: str = LOG) -> SyncAudit:
    found = SyncAudit(directory)
    found.follow(traced_calls(lines))
    return found


def test_each_acknowledgement_waits_for_the_disk(tmp_path: Path) -> None:
    if why := counterparts.strace_trouble():
        decline(why)
    trace, store = tmp_path / "trace", tmp_path / "store"
    subprocess.run(
        [
            *("strace", "-f", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"),
            *(sys.executable, "-m", "tests.store.sync_writer", str(store), str(MESSAGES)),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=100,
    )
    found = audit(trace.read_text().splitlines(), f"{store}/commitlog")
    assert found.faults == []
    assert found.acknowledged == MESSAGES
    assert len(found.segments) > 2


OPENED = [
    f'7 openat(AT_FDCWD, "{SEGMENT}", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 5',
    f'7 openat(AT_FDCWD, "{LOG}", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 6',
]
WRITTEN = (
    '7 pwritev(5, [{iov_base="\\0\\0"..., iov_len=90}, {iov_base="", iov_len=10}], 2, 0) = 100'
)
SYNCED = "8 fdatasync(5)                      = 0"
NAMES_SYNCED = "8 fsync(6)                          = 0"
ACKNOWLEDGED = '7 write(1, "ack 0 100\\n", 10)      = 10'


def test_what_was_written_then_synced_with_its_name_may_be_acknowledged() -> None:
    found = audit([*OPENED, WRITTEN, SYNCED, NAMES_SYNCED, ACKNOWLEDGED])
    assert (found.acknowledged, found.segments, found.faults) == (1, {SEGMENT}, [])


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([SYNCED, NAMES_SYNCED, ACKNOWLEDGED], "never written"),
        ([WRITTEN, NAMES_SYNCED, ACKNOWLEDGED, SYNCED], "not synced since it was written"),
        ([SYNCED, WRITTEN, NAMES_SYNCED, ACKNOWLEDGED], "not synced since it was written"),
        ([WRITTEN, SYNCED, ACKNOWLEDGED, NAMES_SYNCED], "the name of its file was not synced"),
        (
            [WRITTEN, "8 fdatasync(5) = -1 EIO (Input/output error)", NAMES_SYNCED, ACKNOWLEDGED],
            "not synced since it was written",
        ),
    ],
)
def test_whatever_is_missing_or_too_late_is_found(lines: list[str], fault: str) -> None:
    (found,) = audit([*OPENED, *lines]).faults
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (["8 fdatasync(5 <unfinished ...>", ACKNOWLEDGED, "8 <... fdatasync resumed>) = 0"], 1),
        (["8 fdatasync(5 <unfinished ...>", "8 <... fdatasync resumed>) = 0", ACKNOWLEDGED], 0),
    ],
)
def test_a_sync_counts_from_where_it_returned(lines: list[str], faults: int) -> None:
    assert len(audit([*OPENED, WRITTEN, NAMES_SYNCED, *lines]).faults) == faults


def test_a_write_that_returned_during_a_sync_needs_the_next_one() -> None:
    begun = "8 fdatasync(5 <unfinished ...>"
    lines = [begun, WRITTEN, "8 <... fdatasync resumed>) = 0", NAMES_SYNCED, ACKNOWLEDGED]
    assert len(audit([*OPENED, *lines]).faults) == 1
