"""Masters of elected groups are killed, and the other broker takes over."""

from pathlib import Path

from bench.elections import LEASES, Group, of_java, of_ours
from bench.parties import JAVA_VERSION, stores
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.elected import group_as_told_by, in_sync


def fails_over(group: Group) -> None:
    """Kill the master; return when both are in sync again, and the other one leads."""
    before = group_as_told_by(group.controller, "elected")
    assert group.failed_over().cost > 0
    after = group_as_told_by(group.controller, "elected")
    assert after.master_address != before.master_address
    assert after.master_epoch > before.master_epoch
    assert in_sync(after) == sorted(str(one.address) for one in group.members)
    (dead,) = (one for one in group.members if str(one.address) == before.master_address)
    assert not stores(dead.address)  # it follows


def test_our_group_gets_another_master(tmp_path: Path) -> None:
    if counterparts.etcd_command() is None:
        decline("no etcd on the PATH nor in .counterparts")
    with of_ours(tmp_path / "ours", LEASES["elected_2s"]) as group:
        fails_over(group)


def test_java_s_group_gets_another_master(tmp_path: Path) -> None:
    if (why := counterparts.missing_for(JAVA_VERSION)) is not None:
        decline(why)
    with of_java(tmp_path / "java", LEASES["elected_2s"]) as group:
        fails_over(group)
