"""The types that hold bytes."""

from typing import TypeAlias

__all__ = ["Buffer"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A memoryview counts its length in bytes: format ``B``, one dimension, contiguous."""
