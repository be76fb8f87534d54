"""Where a ledger is, as one text that means the same on the driver and in all tasks."""

import os
from typing import Final

__all__ = ["absolute"]

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names, which checkpoints have, and pyarrow's."""


def absolute(location: str) -> str:
    """Return a location that means the same in every process: a relative path becomes absolute.

    >>> absolute("s3a://bucket/ledger"), absolute("file:/var/ledger/")
    ('s3://bucket/ledger', '/var/ledger')
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return os.path.abspath(location)
    if scheme == "file":
        return os.path.abspath(f"/{rest.lstrip('/')}")
    return f"{_SCHEMES.get(scheme, scheme)}:{rest}".rstrip("/")
