"""The bytes that the demo prints are those of a record and of both frames."""

import pytest

from orbitmq.clock import SystemClock
from orbitmq.demo.first_bytes import show_bytes


def test_a_record_and_both_headers_are_printed_and_decoded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_bytes(SystemClock())
    lines = capsys.readouterr().out.splitlines()
    assert """decoded: b'{"order": "o-42"}' tags=paid keys=('o-42',)""" in lines
    assert lines.count("decoded: topic='orders'") == 2
    heads = [line for line in lines if line.startswith("the send request, ")]
    assert [head.split()[5] for head in heads] == ["JSON", "ROCKETMQ"]
    assert sum("da a3 20 a7" in line for line in lines) == 1  # the magic number of a record
