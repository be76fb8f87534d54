"""A pair of ours against itself: each figure is measured, and a copy is whole."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.elections import LEASES
from bench.measure import Child
from bench.members import member
from bench.parties import OURS
from bench.replicate import (
    AIMS,
    ALONE,
    CatchUp,
    Pair,
    Sizes,
    caught_up,
    fill,
    measured,
    shown,
)
from bench.rounds import Result, Spread, WarmUp
from orbitmq.net.address import Address
from tests.interop.our_servers import our_nameserver

TINY = Sizes(
    rounds=1,
    messages=200,
    warm_messages=200,
    latency_rounds=1,
    latency_s=0.2,
    per_second=200,
    log_mb=1,
    copies=1,
    promotions=1,
)


@contextmanager
def a_pair(directory: Path, name: str, nameserver: Address) -> Iterator[Pair]:
    with ExitStack() as stack:
        pair = Pair(
            *(
                stack.enter_context(member(OURS, directory / f"{name}-{one}", name, nameserver))
                for one in ("master", "slave")
            )
        )
        pair.start()
        yield pair


def test_every_figure_is_measured(tmp_path: Path) -> None:
    with (
        our_nameserver(tmp_path) as nameserver,
        a_pair(tmp_path, "a", nameserver) as pair,
    ):
        found = list(measured(pair, pair, TINY))
    rows = [one for one in found if isinstance(one, Result)]
    assert [*(one.name for one in rows), *LEASES] == list(AIMS)
    assert all(one.ours.least > 0 and one.theirs.least > 0 for one in rows)
    assert len([one for one in found if isinstance(one, WarmUp)]) == 2


def test_a_copy_is_timed_and_the_slave_has_all(tmp_path: Path) -> None:
    with (
        our_nameserver(tmp_path) as nameserver,
        member(OURS, tmp_path / "master", "a", nameserver) as master,
        member(OURS, tmp_path / "slave", "a", nameserver) as slave,
        Child() as child,
    ):
        master.start(ALONE)
        fill(child, master, 4)
        found = caught_up(master, slave)
        (copy,) = master.copies()
        assert copy.slave_ack_offset > 4_000_000
    assert found.mb_per_s > 0


@pytest.mark.parametrize("ratio", [0.4, 2.0])
def test_the_tables_fit_a_terminal(ratio: float) -> None:
    spread = Spread(12_345.0, 12_345.0, 12_345.0)
    rows = [
        Result(name=name, ours=spread, theirs=spread, ratio=Spread(ratio, ratio, ratio))
        for name in AIMS
    ]
    copies = {"orbitmq's slave of Java's master": [CatchUp(123.0, 4.5)]}
    lines = shown(rows, copies).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.endswith(f"{ratio:.2f}") for line in lines)
