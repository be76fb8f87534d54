"""A forked child that touches a parent's connection gets an error that says so."""

import asyncio
import os
import warnings
from collections.abc import Callable

import pytest

from orbitmq.errors import WrongProcess
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.fork import check_process, process_token
from orbitmq.net.listener import Listener
from tests.net.loopback import ASK, LOOPBACK, echo, on_both_loops, run_on
from tests.net.test_blocking import echoing, peer


def said_in_a_fork(attempt: Callable[[], object]) -> str:
    """Run ``attempt`` in a forked child; return the text of the WrongProcess it raised."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: meant here
        child = os.fork()
    if not child:
        try:
            attempt()
            said = "nothing was raised"
        except WrongProcess as error:
            said = str(error)
        except BaseException as error:
            said = f"another error: {error!r}"
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_the_token_is_the_same_in_one_process_and_another_in_a_child() -> None:
    token = process_token()
    check_process(token, "the connection")
    said = said_in_a_fork(lambda: check_process(token, "the connection"))
    assert said.startswith("the connection was opened before this process was forked")
    assert "open a new one in the child" in said


@on_both_loops
def test_an_async_connection_is_refused_in_a_child_and_works_on_in_the_parent(loop: str) -> None:
    def touch(connection: Connection) -> None:
        connection.start_request(ASK, timeout_ms=100)

    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            connection = await dialer.connection(listener.address)
            for attempt in (
                lambda: touch(connection),
                lambda: connection.oneway(ASK),
                lambda: connection.request(ASK).send(None),
                lambda: dialer.connection(listener.address).send(None),
            ):
                assert "was forked and belongs to the parent" in said_in_a_fork(attempt)
            assert (await connection.request(ASK, b"still here")).body == b"still here"

    run_on(loop, scenario())


def test_a_blocking_connection_is_refused_in_a_child() -> None:
    with peer(echoing(1)) as address, BlockingConnection(address) as connection:
        for attempt in (
            lambda: connection.request(ASK),
            lambda: connection.oneway(ASK),
            lambda: connection.result(0),
        ):
            assert f"<BlockingConnection {address} open" in said_in_a_fork(attempt)
        assert connection.request(ASK, b"x").body == b"x"


def test_the_error_is_one_of_ours() -> None:
    with pytest.raises(WrongProcess):
        check_process(object(), "the connection")
    assert asyncio.iscoroutinefunction(Connection.request)
