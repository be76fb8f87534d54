"""Bytes as they come: owned, growing, or a view of somebody else's."""

from typing import TypeAlias

__all__ = ["Buffer"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A memoryview counts its length in bytes: format ``B``, one dimension, contiguous."""
