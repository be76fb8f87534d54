"""Writes the pages that are made from the code: ``python -m tools.reference``.

``--check`` writes nothing, and fails if a page is not up to date.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools import api_pages, java_keys_page

__all__ = ["main", "pages"]

DOCS: Final = Path(__file__).parents[1] / "docs"


def pages() -> dict[Path, str]:
    """Return each page as it should be."""
    texts = {"java-keys.md": java_keys_page.page(), **api_pages.pages()}
    return {DOCS / path: text for path, text in texts.items()}


def main(arguments: Sequence[str], where: Path = DOCS) -> int:
    """Write the pages, or check them; return the exit status."""
    wanted = {where / path.relative_to(DOCS): text for path, text in pages().items()}
    stale = [
        path for path, text in wanted.items() if not path.is_file() or path.read_text() != text
    ]
    left = {*(where / "api").glob("*.md")} - wanted.keys()
    if "--check" in arguments:
        for path in (*stale, *sorted(left)):
            print(f"{path.relative_to(where)} differs from the code: run 'make reference'")
        return 1 if stale or left else 0
    for path in left:
        path.unlink()
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
