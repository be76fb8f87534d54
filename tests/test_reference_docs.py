"""Tables in the documents say what the code says, and the programs in the README run."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orbitmq.net.settings import NetSettings
from orbitmq.store.settings import StoreSettings
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers import request_type
from orbitmq.wire.session import Identity
from tests.architecture.sources import ROOT

Row = list[str]


def table(document: str, heading: str) -> list[Row]:
    """Return the rows of the first table below a heading, without its head."""
    below = (ROOT / document).read_text().partition(f"\n## {heading}\n")[2]
    rows = re.search(r"(?m)(^\|.*\n)+", below)
    assert rows, f"{document} has no table below {heading!r}"
    cells = [line.strip("|").split("|") for line in rows[0].splitlines()]
    return [[cell.strip() for cell in row] for row in cells[2:]]


@pytest.mark.parametrize(
    ("heading", "settings"),
    [
        ("Connections: `orbitmq.net.settings.NetSettings`", NetSettings),
        ("Identity: `orbitmq.wire.session.Identity`", Identity),
        ("Store: `orbitmq.store.settings.StoreSettings`", StoreSettings),
    ],
)
def test_the_settings_are_those_of_the_code(heading: str, settings: type[msgspec.Struct]) -> None:
    shown = {row[0].strip("`"): row[1] for row in table("docs/settings.md", heading)}
    defaults = {field.name: field.default for field in msgspec.structs.fields(settings)}
    assert shown == {name: as_shown(value) for name, value in defaults.items()}


def as_shown(value: object) -> str:
    if value is None:
        return "none"
    return str(getattr(value, "name", value))


def test_the_codes_are_those_of_the_code() -> None:
    rows = table("docs/compatibility.md", "Request codes")
    assert {row[1]: (int(row[0]), row[2]) for row in rows} == {
        code.name: (code.value, header_name(code)) for code in RequestCode
    }


def header_name(code: RequestCode) -> str:
    header = request_type(code)
    if header is None:
        return "–"
    return "no fields" if header is NoFields else f"`{header.__name__}`"


def programs(document: Path) -> list[str]:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", document.read_text())
    return [block for block in blocks if "asyncio.run(" in block and "# not run" not in block]


@pytest.mark.parametrize("program", programs(ROOT / "README.md"))
def test_the_programs_of_the_readme_run(program: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "{0: '127.0.0.1:10911'}" in run.stdout
