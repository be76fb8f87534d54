"""Every file of golden bytes is used by a test."""

from pathlib import Path

from tests.golden_files import GOLDEN

TESTS = Path(__file__).parent
# What waits for the room it belongs to. The list may only shrink.
WAITING = {
    "allocations": "how consumers share queues",
}


def test_every_golden_file_is_used_or_waits_for_its_room() -> None:
    sources = [path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)]
    names = {path.stem for path in GOLDEN.glob("*.json")}
    used = {
        name
        for name in names
        if any(f'"{name}.json"' in text or f'"{name}"' in text for text in sources)
    }
    assert names - used == set(WAITING)
