"""Fetches what tests meet: RocketMQ's own jars, other clients, etcd, libfaketime, strace, Chromium.

``python -m tests.interop.counterparts`` (that is, ``make counterparts``) prints one line per
counterpart. What can't be had is told, not fatal: the tests that need it skip with the same
reason. With ``ORBITMQ_INTEROP=require`` in the environment a missing counterpart fails the run.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.interop import java_classes, machine, spark_classes
from tests.interop.client_packages import OTHER_CLIENTS, OtherClient
from tests.interop.machine import (
    DOWNLOAD_SECONDS,
    INSTALL_SECONDS,
    Counterpart,
    install_debian_package,
    run,
    unpack_debian_package,
)

ROCKETMQ_VERSIONS = ("5.4.0", "4.9.7")
"""The release we write like, and the oldest line that clusters still run."""

NEWEST_VERSION = "5.5.0"
"""The newest release, for smoke tests in both directions."""

JAVA_AT_LEAST = 11
"""The oldest Java that the classes of RocketMQ 5 and JPype both start on."""

DEBIAN_PACKAGES = {
    "java": ("openjdk-17-jre-headless", "default-jre-headless"),  # 17 left Debian after 12
    "mvn": ("maven",),
    "node": ("nodejs",),
    "npm": ("npm",),
    "go": ("golang-go",),
    "strace": ("strace",),
    "chromium": ("chromium", "chromium-browser"),
}
ADVICE = {
    "java": f"a JRE {JAVA_AT_LEAST} or later",
    "mvn": "Maven",
    "node": "Node.js",
    "npm": "npm",
    "go": "Go",
    "strace": "strace",
    "chromium": "Chromium",
}

SYSTEM = Path("/")
POM = Path(__file__).with_name("pom.xml")
COMPLETE = ".complete"


def required() -> bool:
    """Tell whether a missing counterpart is a failure rather than a reason to skip."""
    return os.environ.get("ORBITMQ_INTEROP") == "require"


def jars_of(version: str) -> Path:
    """Return the directory that holds (or would hold) the jars of a RocketMQ version."""
    return machine.HOME / f"rocketmq-{version}"


def java_home() -> Path | None:
    """Return the home of the first Java that is new enough: JAVA_HOME's, then the PATH's."""
    named = os.environ.get("JAVA_HOME")
    for java in (shutil.which("java", path=named and f"{named}/bin"), shutil.which("java")):
        if java and (java_version(java) or 0) >= JAVA_AT_LEAST:
            return Path(java).resolve().parents[1]
    return None


@functools.cache
def java_version(java: str) -> int | None:
    """Return the feature release of a java command (17 for ``17.0.15``), None if it won't say."""
    try:
        spoken = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', spoken.stderr)
    return int(match[1]) if match else None


def missing_for(version: str) -> str | None:
    """Return why tests against a RocketMQ version can't run here, None if they can."""
    if java_home() is None:
        return f"no Java {JAVA_AT_LEAST} or later on the PATH or in JAVA_HOME"
    if not is_complete(version):
        return f"the jars of RocketMQ {version} are not in .counterparts"
    return None


def is_complete(version: str) -> bool:
    """Tell whether a download of a version ended well, and was made from today's pom."""
    mark = jars_of(version) / COMPLETE
    return mark.is_file() and mark.read_text() == fingerprint(version)


def fingerprint(version: str) -> str:
    """Return what a completed download is marked with: it changes when the pom does."""
    return hashlib.sha256(POM.read_bytes() + version.encode()).hexdigest()


def strace_trouble() -> str | None:
    """Return why system calls can't be traced here, None if they can."""
    if shutil.which("strace") is None:
        return "no strace on the PATH"
    trouble = run(["strace", "-f", "-o", os.devnull, "true"], INSTALL_SECONDS)
    return trouble and f"strace can't trace here: {trouble}"


def etcd_command() -> Path | None:
    """Return the etcd server: the one on the PATH, or the unpacked one."""
    if (found := shutil.which("etcd")) is not None:
        return Path(found)
    unpacked = machine.HOME / "etcd" / "usr" / "bin" / "etcd"
    return unpacked if unpacked.is_file() else None


def ensure_etcd() -> Counterpart:
    """Unpack Debian's etcd, where there is none; tests start their own process of it."""
    if (found := etcd_command()) is not None:
        return Counterpart("etcd", "found", str(found))
    trouble = unpack_debian_package("etcd-server", machine.HOME / "etcd")
    if (found := etcd_command()) is not None:
        return Counterpart("etcd", "installed", str(found))
    return Counterpart("etcd", "missing", f"install etcd: {trouble}")


def faketime_library() -> Path | None:
    """Return the library of libfaketime for processes with threads: the system's, or the unpacked.

    The other one of the package reads its file without a lock.
    """
    for root in (SYSTEM, machine.HOME / "libfaketime"):
        found = [*root.glob("usr/lib/*/faketime/libfaketimeMT.so.1")]
        if found:
            return found[0]
    return None


def ensure_faketime() -> Counterpart:
    """Unpack Debian's libfaketime, where there is none; tests load it into some processes."""
    if (found := faketime_library()) is not None:
        return Counterpart("libfaketime", "found", str(found))
    trouble = unpack_debian_package("libfaketime", machine.HOME / "libfaketime")
    if (found := faketime_library()) is not None:
        return Counterpart("libfaketime", "installed", str(found))
    return Counterpart("libfaketime", "missing", f"install libfaketime: {trouble}")


def place_of(command: str) -> str | None:
    """Return where a command is; for java the home of one that is new enough."""
    if command == "java":
        home = java_home()
        return None if home is None else str(home)
    return shutil.which(command)


def ensure_commands() -> Iterator[Counterpart]:
    """Find the commands, and install what is missing where we may."""
    for command, packages in DEBIAN_PACKAGES.items():
        place = place_of(command)
        if place:
            yield Counterpart(command, "found", place)
            continue
        trouble = install_debian_package(*packages)
        place = place_of(command)
        if place:
            yield Counterpart(command, "installed", place)
        else:
            advice = f"install {ADVICE[command]}"
            why = trouble or "it was installed, yet is not on the PATH"
            yield Counterpart(command, "missing", f"{advice}: {why}")


def ensure_jars(version: str) -> Counterpart:
    """Have Maven copy the jars of a version; a download that stopped half way starts anew."""
    name, place = f"rocketmq {version}", jars_of(version)
    if is_complete(version):
        return Counterpart(name, "found", describe(place))
    maven = shutil.which("mvn")
    if maven is None or java_home() is None:
        return Counterpart(name, "missing", "Java and Maven are needed to fetch the jars")
    copy = [maven, "-B", "-q", "-f", str(POM), f"-Drocketmq.version={version}"]
    copy += ["dependency:copy-dependencies", f"-DoutputDirectory={place}", "-DincludeScope=runtime"]
    trouble: str | None = "not tried"
    for _attempt in range(2):  # a mirror may hiccup; Maven keeps what already came
        shutil.rmtree(place, ignore_errors=True)
        trouble = run(copy, DOWNLOAD_SECONDS)
        if trouble is None:
            (place / COMPLETE).write_text(fingerprint(version))
            return Counterpart(name, "installed", describe(place))
    return Counterpart(name, "missing", f"Maven could not fetch the jars: {trouble}")


def ensure_classes(version: str) -> Counterpart:
    """Make the archive of a version's classes, where its jars are here."""
    home = java_home() if missing_for(version) is None else None
    return java_classes.ensure(version, jars_of(version), home)


def describe(place: Path) -> str:
    """Return how many jars a directory holds, for the table."""
    return f"{sum(1 for _ in place.glob('*.jar'))} jars in {place.parent.name}/{place.name}"


def main() -> int:
    """Fetch everything, print the table, return the exit status."""
    counterparts = [
        *ensure_commands(),
        ensure_etcd(),
        ensure_faketime(),
        *map(ensure_jars, (*ROCKETMQ_VERSIONS, NEWEST_VERSION)),
        *map(ensure_classes, (*ROCKETMQ_VERSIONS, NEWEST_VERSION)),
        *map(OtherClient.ensure, OTHER_CLIENTS),
        spark_classes.ensure(java_home()),
    ]
    for one in counterparts:
        print(f"{one.name:<26} {one.state:<10} {one.why}")
    lacking = [one.name for one in counterparts if one.state == "missing"]
    if lacking and required():
        print(f"ORBITMQ_INTEROP=require, yet missing: {', '.join(lacking)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
