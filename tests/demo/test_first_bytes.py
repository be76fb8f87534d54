"""The bytes that the demo draws are those of a record and of both frames."""

import pytest

from orbitmq.clock import SystemClock
from orbitmq.demo.first_bytes import show_bytes


def test_a_record_and_both_headers_are_drawn_and_read_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_bytes(SystemClock())
    lines = capsys.readouterr().out.splitlines()
    assert """read back: b'{"order": "o-42"}' tags=paid keys=('o-42',)""" in lines
    assert lines.count("read back: topic='orders'") == 2
    heads = [line for line in lines if line.startswith("the request that sends it")]
    assert [head.split()[7] for head in heads] == ["JSON", "ROCKETMQ"]
    assert sum("da a3 20 a7" in line for line in lines) == 1  # the magic number of a record
