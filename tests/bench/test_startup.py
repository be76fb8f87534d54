import subprocess

import pytest

from bench.startup import PROGRAMS, best


def test_a_program_takes_time() -> None:
    empty = best(("-c", ""), rounds=2)
    busy = best(("-c", "sum(range(10**7))"), rounds=2)
    assert 0 < empty.cpu < busy.cpu
    assert busy.wall > 0


def test_a_program_that_fails_has_no_figure() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        best(("-c", "raise SystemExit(3)"), rounds=1)


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_programs_run(what: str) -> None:
    arguments, _ = PROGRAMS[what]
    assert best(arguments, rounds=1).wall > 0
