"""A server's life under a command: one line, a signal, an end."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from orbitmq.cli.serving import serve
from orbitmq.errors import InvalidInput


def test_a_signal_ends_it_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def server() -> AsyncIterator[str]:
        steps.append("started")
        yield "broker-a"
        steps.append("stopped")

    def ready(name: str) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return f"ready {name}"

    assert serve(server, ready) == 0
    assert steps == ["started", "stopped"]
    assert capsys.readouterr().out == "ready broker-a\n"


def test_a_signal_while_it_starts_is_not_lost() -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGINT)
        yield None

    assert serve(server, lambda _: "ready") == 0


def test_a_start_that_fails_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        raise InvalidInput("the port is taken", field="port")
        yield

    with pytest.raises(InvalidInput, match="the port is taken"):
        serve(server, lambda _: "ready")
    assert capsys.readouterr().out == ""
