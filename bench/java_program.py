"""A Java program of ``bench/java`` in a process of its own, on the jars of RocketMQ."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.parties import JAVA_VERSION
from tests.interop import counterparts
from tests.interop.java_server import MODULES_OPENED

__all__ = ["java_program", "last_words"]

_SOURCES: Final = Path(__file__).parent / "java"
_LAST_WORDS: Final = 2_000


@contextmanager
def java_program(
    directory: Path, name: str, *arguments: str
) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Run a program with pipes; yield it, and the file of its error output.

    Raises:
        RuntimeError: there is no JDK; the message says what to install.
    """
    home, why = counterparts.java_home(), counterparts.missing_for(JAVA_VERSION)
    if home is None or why is not None:
        raise RuntimeError(f"{why}: run 'make counterparts'")
    if not (home / "bin" / "javac").exists():
        raise RuntimeError(f"{home} has no compiler: install a JDK, or set JAVA_HOME to one")
    directory.mkdir(parents=True)
    command = [
        *(str(home / "bin" / "java"), "-Xms512m", "-Xmx512m", *MODULES_OPENED),
        *(f"-Duser.home={directory}", "-cp", f"{counterparts.jars_of(JAVA_VERSION)}/*"),
        *(str(_SOURCES / f"{name}.java"), *arguments),
    ]
    pipe = partial(subprocess.Popen, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    log = directory / "output.log"
    with log.open("wb") as output, pipe(command, stderr=output) as process:
        try:
            yield process, log
        finally:
            process.kill()


def last_words(process: "subprocess.Popen[str]", log: Path) -> str:
    """Return how a program ended, with the end of its error output."""
    return f"status {process.wait()}: {log.read_text(errors='replace')[-_LAST_WORDS:]}"
