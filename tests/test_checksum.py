import builtins
import importlib
import zlib
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from orbitmq import checksum


@given(st.binary(max_size=3_000), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_isa_l_and_zlib_return_the_same(data: bytes, begin: int, before: int) -> None:
    for part in (data, bytearray(data), memoryview(data)[begin:]):
        assert isal_zlib.crc32(part) == zlib.crc32(part)
        assert isal_zlib.crc32(part, before) == zlib.crc32(part, before)


@pytest.fixture
def without_isal(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    real = builtins.__import__

    def missing(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("isal"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", missing)
        yield importlib.reload(checksum)
    importlib.reload(checksum)


def test_isal_is_used_where_it_is_installed() -> None:
    assert checksum.crc32 is isal_zlib.crc32


def test_zlib_is_used_without_it(without_isal: ModuleType) -> None:
    assert without_isal.crc32 is zlib.crc32
