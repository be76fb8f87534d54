import errno

import pytest

from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.memory import limit_files, memory_bytes, parse_limit, physical_bytes
from orbitmq.testing.disks import SimulatedDisk

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"
MACHINE = 16 << 30


def machine(files: dict[str, str]) -> SimulatedDisk:
    """Return a disk with such files of the system."""
    disk = SimulatedDisk()
    for path, text in files.items():
        disk.make_directory(path.rpartition("/")[0])
        disk.open(path, create=True).write([text.encode()], 0)
    return disk


@pytest.mark.parametrize(
    ("cgroups", "paths"),
    [
        ("", []),
        ("0::/\n", [f"{V2}/memory.max"]),
        (
            "0::/a.slice/b.scope\n",
            [f"{V2}/a.slice/b.scope/memory.max", f"{V2}/a.slice/memory.max", f"{V2}/memory.max"],
        ),
        ("0::/../../other\n", [f"{V2}/memory.max"]),
        (
            "9:name=systemd:/\n5:memory,hugetlb:/docker/1f\n1:cpu:/\n",
            [
                f"{V1}/docker/1f/memory.limit_in_bytes",
                f"{V1}/docker/memory.limit_in_bytes",
                f"{V1}/memory.limit_in_bytes",
            ],
        ),
        ("4:memory:/\n0::/x\n", [f"{V1}/memory.limit_in_bytes", f"{V2}/x/memory.max",
                                 f"{V2}/memory.max"]),
        ("no such line\n", []),
    ],
)  # fmt: skip
def test_limits_are_looked_for_along_the_own_path(cgroups: str, paths: list[str]) -> None:
    assert limit_files(cgroups) == paths


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("536870912\n", 536870912),
        ("max\n", None),
        ("0\n", None),
        ("", None),
        ("-1", None),
        ("12 kB", None),
        ("9223372036854771712\n", 9223372036854771712),  # version 1 has no other way to say none
        ("9" * 5000, None),
    ],
)
def test_a_limit_is_a_number_of_bytes(text: str, limit: int | None) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, MACHINE),
        (
            {OWN: "0::/a/b\n", f"{V2}/a/b/memory.max": "max\n"},
            MACHINE,
        ),
        (
            {
                OWN: "0::/a/b\n",
                f"{V2}/a/b/memory.max": "8589934592\n",
                f"{V2}/a/memory.max": "4294967296\n",  # what is above binds too
            },
            4 << 30,
        ),
        (
            {
                OWN: "4:memory:/docker/of/the/host\n0::/\n",
                f"{V1}/memory.limit_in_bytes": "1073741824\n",
            },
            1 << 30,
        ),
        (
            {
                OWN: "4:memory:/\n",
                f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
            },
            MACHINE,
        ),
    ],
)
def test_the_least_limit_counts(files: dict[str, str], expected: int) -> None:
    assert memory_bytes(machine(files), lambda: MACHINE) == expected


def test_a_limit_that_cannot_be_read_is_told_and_counts_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = machine({OWN: "0::/\n", f"{V2}/memory.max": "1024\n"})
    disk.fail("read", "memory.max", errno.EACCES)
    assert memory_bytes(disk, lambda: MACHINE) == MACHINE
    assert "memory.max: Permission denied" in caplog.text


def test_the_files_of_this_machine_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    assert 0 < memory_bytes(RealDisk()) <= physical_bytes()
    assert caplog.text == ""
