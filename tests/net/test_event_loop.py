import asyncio
import sys

import pytest
import uvloop

from orbitmq.net.event_loop import new_event_loop


def test_uvloop_is_taken_where_it_exists() -> None:
    loop = new_event_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()


def test_the_standard_loop_is_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
