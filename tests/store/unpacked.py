"""Java's stores for tests that read, and damage, files."""

from pathlib import Path
from typing import Any

from tests.golden_files import GOLDEN
from tests.store.golden import manifest, unpack

NAMES = sorted(path.name.removesuffix(".tar.gz") for path in (GOLDEN / "store").glob("*.tar.gz"))
SEGMENT = 262144  # bytes of a log file, in all but edge and cqext


def unpacked(name: str, into: Path) -> str:
    """Unpack a store, and return its directory."""
    return str(unpack(name, into / name).root)


def records_of(name: str) -> list[Any]:
    """Return what Java read of the log, but for blanks and the torn record of crash-torn."""
    records = [record for record in manifest(name)["dump"]["records"] if not record.get("blank")]
    return records[:-1] if name == "crash-torn" else records


def overwrite(path: str | Path, position: int, data: bytes) -> None:
    """Write over some bytes of a file."""
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path: str | Path, position: int) -> None:
    """Invert the lowest bit of a byte of a file."""
    overwrite(path, position, bytes([Path(path).read_bytes()[position] ^ 1]))
