"""A whole run as a file: what was measured, when, and on which machine.

::

    {"kind": "full", "date": …, "versions": {…}, "machine": {…}, "warm_ups": […], "rows": […]}
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from bench.parties import JAVA_VERSION
from bench.rounds import Result, WarmUp
from bench.rows import BY_NAME, Row
from orbitmq import kernel
from orbitmq.settings import environment
from tests.interop import counterparts

__all__ = ["Run", "here", "joined", "read", "written"]

_NONE: Final = "none"
_VERSION: Final = re.compile(r'version "([^"]+)"')


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    kind: str
    """``full`` or ``quick``."""
    date: str
    versions: Mapping[str, str]
    machine: Mapping[str, str | int | float]
    warm_ups: tuple[WarmUp, ...] = ()
    rows: tuple[Result, ...] = ()

    @property
    def results(self) -> list[tuple[Row, Result]]:
        """The rows that were measured, in the order of their descriptions."""
        found = {result.name: result for result in self.rows}
        return [(row, found[name]) for name, row in BY_NAME.items() if name in found]

    @property
    def is_compiled(self) -> bool:
        """Whether our processes used the compiled kernel."""
        return self.versions.get("compiled kernel", _NONE) != _NONE

    def group(self, name: str) -> list[tuple[Row, Result]]:
        """Return the measured rows of one group."""
        return [(row, result) for row, result in self.results if row.group == name]

    def size(self, row: Row) -> str:
        """Return the size of a row that depends on the kind of run; empty for others."""
        if row.sizes is None:
            return ""
        return row.sizes.full if self.kind == "full" else row.sizes.quick

    def met(self) -> tuple[int, int]:
        """Return how many aims are met, and how many there are."""
        verdicts = [row.is_met(result.ratio.median) for row, result in self.results]
        return verdicts.count(True), len(verdicts) - verdicts.count(None)


def here(kind: str, rows: Iterable[Result], warm_ups: Iterable[WarmUp]) -> Run:
    """Return a run on this machine, now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Run(
        kind=kind,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        versions={
            "Python": platform.python_version(),
            "uvloop": _package("uvloop"),
            "msgspec": _package("msgspec"),
            "isal": _package("isal"),
            "Java": _java(),
            "RocketMQ": JAVA_VERSION,
            "compiled kernel": _NONE
            if kernel.load(environment("ORBITMQ_SPEED")) is None
            else kernel.VERSION,
        },
        machine={
            "cores": os.cpu_count() or 0,
            "memory_gib": round(memory / 1024**3, 1),
            "kernel": platform.release(),
            "architecture": platform.machine(),
        },
        warm_ups=tuple(warm_ups),
        rows=tuple(rows),
    )


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _java() -> str:
    home = counterparts.java_home()
    if home is None:
        return "not installed"
    command = [str(home / "bin" / "java"), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = _VERSION.search(said)
    return found[1] if found else said.partition("\n")[0]


def written(run: Run, path: Path) -> None:
    """Write a run, each row with its description and verdict."""
    whole = msgspec.to_builtins(run)
    whole["rows"] = [
        {
            **{name: getattr(row, name) for name in ("name", "work", "against", "unit", "aim")},
            "size": run.size(row),
            "met": row.is_met(result.ratio.median),
            **msgspec.to_builtins(result),
        }
        for row, result in run.results
    ]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(whole)), indent=2) + b"\n")


def _rounded(value: object) -> object:
    """Return JSON values with floats of four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def joined(parts: Sequence[Run]) -> Run:
    """Return one run of several parts, of one kind; of a row in two parts the later one counts.

    Its date says from when to when they were measured; the rest is that of the last part.
    """
    kinds = {part.kind for part in parts}
    if len(kinds) != 1:
        raise ValueError(f"the parts are of different kinds: {', '.join(sorted(kinds))}")
    rows = {row.name: row for part in parts for row in part.rows}
    first, last = parts[0].date.partition(" to ")[0], parts[-1].date.rpartition(" to ")[2]
    return msgspec.structs.replace(
        parts[-1],
        date=last if first == last else f"{first.removesuffix(' UTC')} to {last}",
        warm_ups=tuple(warm_up for part in parts for warm_up in part.warm_ups),
        rows=tuple(rows.values()),
    )


def read(path: Path) -> Run:
    """Read a run; what describes its rows is taken from :mod:`bench.rows`."""
    return msgspec.json.decode(path.read_bytes(), type=Run)
