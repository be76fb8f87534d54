"""The version of this package; that in pyproject.toml is the same."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
