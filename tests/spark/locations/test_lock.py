"""One owner at a time, also where the kernel can't help; the dead hold nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.errors import LocationInUse
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import LEASE_MS, locked
from tests.spark.fake_cluster import FakeClock
from tests.spark.faulty_location import BucketLocation

HOLDS = """
import sys
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import locked
with locked(Location(sys.argv[1]), "own"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_refused_until_the_owner_dies(tmp_path: Path) -> None:
    location = Location(str(tmp_path))
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(LocationInUse, match=f"process {owner.pid}"), locked(location, "own"):
            pass
        owner.kill()
        owner.wait()
        with locked(location, "own") as mine:
            mine.check()


def test_leases(tmp_path: Path) -> None:
    clock = FakeClock()
    location = BucketLocation(str(tmp_path))
    with locked(location, "own", clock) as owner:
        owner.check()
        with pytest.raises(LocationInUse, match="process"), locked(location, "own", clock):
            pass
        owner.check()  # the refused one has taken nothing
    assert location.all_files("own") == []


def test_a_lease_that_is_not_renewed_is_lost(tmp_path: Path) -> None:
    clock = FakeClock()
    location = BucketLocation(str(tmp_path))
    with locked(location, "own", clock) as frozen:
        clock.pass_ms(LEASE_MS)
        with locked(location, "own", clock) as successor:
            with pytest.raises(LocationInUse, match="not renewed"):
                frozen.check()
            successor.check()
