"""How the suite starts RocketMQ's servers and clients: dozens of times, so each has to be quick.

Most of a start is loading and verifying classes. ``make counterparts`` runs a nameserver, a broker
and clients of each release once, and leaves the classes that they loaded as one archive, which
every later start maps into memory. A Java of another release, or other jars, ignore the archive.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop import machine
from tests.interop.machine import Counterpart, run

SECONDS = 300
SILENT = "-Xlog:disable"  # a mismatch is no news: the server runs, only slower
_NUMBER = re.compile(r" id: \d+$")


def class_path(jars: Path) -> list[str]:
    """Return the jars of a directory in the one order that an archive is made for."""
    return [str(jar) for jar in sorted(jars.resolve().glob("*.jar"))]


def archive(jars: Path, java_home: Path) -> Path:
    """Return where the archive of some jars for a Java is, or would be."""
    return machine.HOME / f"{jars.name}-{java_home.name}.jsa"


def options(jars: Path, java_home: Path) -> list[str]:
    """Return what makes a JVM with these jars first on its class path start quickly."""
    place = archive(jars, java_home)
    return [f"-XX:SharedArchiveFile={place}", SILENT] if place.is_file() else []


def ensure(version: str, jars: Path, java_home: Path | None) -> Counterpart:
    """Make the archive if there is none; without it the suite only takes longer."""
    name = f"rocketmq {version} classes"
    if java_home is None or not jars.is_dir():
        return Counterpart(name, "skipped", "no Java, or no jars")
    place = archive(jars, java_home)
    if place.is_file() and place.stat().st_mtime >= jars.stat().st_mtime:
        return Counterpart(name, "found", place.name)
    place.unlink(missing_ok=True)
    with TemporaryDirectory() as folder:
        trouble = _train(version, Path(folder)) or _dump(jars, java_home, Path(folder))
    if trouble is None:
        return Counterpart(name, "installed", place.name)
    return Counterpart(name, "skipped", f"Java's servers will start slowly: {trouble}")


def _train(version: str, folder: Path) -> str | None:
    """Run servers and clients, each of which lists the classes that it loads."""
    listing = f"-XX:DumpLoadedClassList={folder}/%p.classes"
    return run(
        [sys.executable, "-m", "tests.interop.java_training", version, str(folder)],
        SECONDS,
        directory=Path(__file__).parents[2],
        environment={"JAVA_TOOL_OPTIONS": listing},
    )


def _dump(jars: Path, java_home: Path, folder: Path) -> str | None:
    """Write the archive of all classes that were listed."""
    lists = [file.read_text().splitlines() for file in folder.glob("*.classes")]
    merged = folder / "all"
    merged.write_text("\n".join(merge(lists)))
    place = archive(jars, java_home)
    made = place.with_suffix(f".{os.getpid()}")  # a server may start meanwhile
    dump = [str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedClassListFile={merged}"]
    dump += [f"-XX:SharedArchiveFile={made}", "-cp", os.pathsep.join(class_path(jars))]
    trouble = run(dump, SECONDS)
    if made.is_file():
        made.rename(place)
        return None
    return trouble or "Java left no archive"


def merge(lists: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of class lists, each once.

    The numbers of classes differ between lists; only classes of other loaders than Java's usual
    ones are found by them, and those stay out.
    """
    lines = {
        _NUMBER.sub("", line): None
        for one in lists
        for line in one
        if line and not line.startswith("#") and "source:" not in line
    }
    return list(lines)
