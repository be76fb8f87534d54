import io

import pytest

from orbitmq.errors import LedgerDamaged
from orbitmq.spark.writing.half_list import (
    Half,
    HalfListHead,
    HalfListWriter,
    read_halves,
    read_head,
)
from tests.spark.writing.crashes import Broker

HEAD = HalfListHead("etl è", began_ms=5, timeout_ms=10_000)


def written(count: int, *, whole: bool = True) -> bytes:
    target, broker = io.BytesIO(), Broker()
    listed = HalfListWriter(target, HEAD)
    listed.add(broker.prepare(row, "w/f") for row in range(count))
    if whole:
        listed.end()
    return target.getvalue()


def read(data: bytes, *, partly: bool = False) -> list[Half]:
    return list(read_halves(data.split(b"\n")[:-1], "w/f", partly=partly))


@pytest.mark.parametrize("count", [0, 1, 500])
def test_what_is_written_can_be_read(count: int) -> None:
    data = written(count)
    assert read_head(data, "w/f") == HEAD
    assert HEAD.expires_ms == 10_005
    assert read(data) == [Half("orders", "broker-a", n, 100 * n, f"{n:032X}") for n in range(count)]


def test_a_list_without_its_end_is_damaged_unless_a_part_will_do() -> None:
    data = written(3, whole=False)
    assert len(read(data, partly=True)) == 3
    with pytest.raises(LedgerDamaged, match="w/f of the ledger is incomplete: it has 3") as caught:
        read(data)
    assert caught.value.path == "w/f"


def test_a_lost_line_is_noticed() -> None:
    lines = written(3).split(b"\n")[:-1]
    del lines[2]
    with pytest.raises(LedgerDamaged, match="incomplete: it has 2"):
        list(read_halves(lines, "w/f"))


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_list_that_is_cut_anywhere_is_damaged(cut: int) -> None:
    with pytest.raises(LedgerDamaged):
        read(written(3)[:-cut])


@pytest.mark.parametrize(
    "data", [b"", b'{"group": "g"}\n', b"nonsense\n", b'{"group"', written(0).replace(b":1", b":9")]
)
def test_another_head_is_damage(data: bytes) -> None:
    with pytest.raises(LedgerDamaged, match="version 1"):
        read_head(data, "w/f")


def test_an_unreadable_line_is_named() -> None:
    data = written(3).replace(b'["orders","broker-a",1,', b'["orders","broker-a","one",')
    with pytest.raises(LedgerDamaged, match="line 3 of w/f"):
        read(data, partly=True)
