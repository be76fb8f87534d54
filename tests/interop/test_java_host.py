"""The host itself: answers stay in order, and errors stay with the input they belong to."""

import os
import signal
from pathlib import Path

import pytest

from tests.interop.java import Java, JavaHostFailed
from tests.interop.operations import BODY_CRC, CHECK_TOPIC, PRINT, Refusal


def test_answers_keep_the_order_of_the_inputs(java: Java) -> None:
    assert java.ask(BODY_CRC, [b"", b"123456789"]) == [0, 0x4BF43926]


def test_no_input_gives_no_answer(java: Java) -> None:
    assert java.ask(BODY_CRC, []) == []


def test_what_java_throws_stays_with_its_input(java: Java) -> None:
    fine, refused = java.attempt(CHECK_TOPIC, ["orders", "no blanks"])
    assert fine is None
    assert isinstance(refused, Refusal)
    assert "MQClientException" in refused.error


def test_asking_for_what_java_refuses_names_the_input(java: Java) -> None:
    with pytest.raises(JavaHostFailed, match="check_topic of input 1"):
        java.ask(CHECK_TOPIC, ["orders", "no blanks"])


def test_the_host_ends_with_its_pipe(java_540: Java, tmp_path: Path) -> None:
    with java_540.another(tmp_path) as host:
        assert host.ask(BODY_CRC, [b""]) == [0]
        assert host.pid != java_540.pid
    with pytest.raises(ProcessLookupError):
        os.kill(host.pid, 0)


def test_a_host_that_died_is_told_as_such(java_540: Java, tmp_path: Path) -> None:
    with java_540.another(tmp_path) as host:
        assert host.ask(BODY_CRC, [b""]) == [0]
        os.kill(host.pid, signal.SIGKILL)
        with pytest.raises(JavaHostFailed, match="the host of RocketMQ"):
            host.ask(BODY_CRC, [b""])


def test_after_a_failure_the_next_question_starts_another_host(
    java_540: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with java_540.another(tmp_path) as host:
        first = host.pid
        os.kill(first, signal.SIGSTOP)
        monkeypatch.setattr("tests.interop.java.ANSWER_SECONDS", 0.1)
        with pytest.raises(JavaHostFailed, match="was silent"):
            host.ask(BODY_CRC, [b"late"])
        monkeypatch.undo()
        assert host.ask(BODY_CRC, [b"123456789"]) == [0x4BF43926]
        assert host.pid != first
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)


def test_what_java_prints_stays_out_of_the_answers(java: Java) -> None:
    assert java.ask(PRINT, ["not an answer"]) == [None]
    assert java.ask(BODY_CRC, [b""]) == [0]
