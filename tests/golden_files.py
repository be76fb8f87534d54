"""Bytes and constants made by the real Java classes; ``tests/golden/`` holds them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


@cache
def golden(name: str) -> Any:
    """Return the content of ``tests/golden/<name>.json``. Treat it as read-only."""
    return json.loads((GOLDEN / f"{name}.json").read_text())
