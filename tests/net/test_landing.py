import socket
from random import Random

import pytest

from orbitmq.errors import ConnectionClosed
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.landing import Landing
from orbitmq.wire.frame import Buffer
from orbitmq.wire.session import Response
from tests.net.loopback import ASK
from tests.net.test_blocking import peer, requests

ANSWERS = 60


def memory(size: int) -> memoryview:
    return memoryview(bytearray(size))


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_same_wherever_they_are_received(seed: int) -> None:
    chance = Random(seed)
    bodies = [chance.randbytes(chance.choice([0, 10, 3_000, 40_000])) for _ in range(ANSWERS)]

    def cut_anywhere(accepted: socket.socket) -> None:
        stream = b"".join(
            part
            for (session, request), body in zip(requests(accepted, ANSWERS), bodies, strict=True)
            for part in session.answer(request, Response(body=body))
        )
        while stream:
            size = chance.choice([1, 7, 300, 9_000, 100_000])
            accepted.sendall(stream[:size])
            stream = stream[size:]

    sizes, taken = Random(seed + 1), dict[int, Buffer]()
    with peer(cut_anywhere) as address, BlockingConnection(address) as connection:
        numbers = connection.start_all([ASK] * ANSWERS)
        order = sorted(range(ANSWERS), key=lambda number: number + sizes.randrange(5))
        for number in order:
            if sizes.random() < 0.3:
                connection.receive_into(
                    None if sizes.random() < 0.3 else memory(sizes.choice([1, 5_000, 200_000]))
                )
            taken[number] = connection.result(numbers[number]).body
        # Nothing that was taken has changed meanwhile: each memory was given once.
        assert [bytes(taken[number]) for number in range(ANSWERS)] == bodies


def test_a_memory_is_free_when_another_is_given() -> None:
    def both_at_once(accepted: socket.socket) -> None:
        stream = b"".join(
            part
            for (session, request), body in zip(
                requests(accepted, 2), (b"one", b"two"), strict=True
            )
            for part in session.answer(request, Response(body=body))
        )
        accepted.sendall(stream)

    with peer(both_at_once) as address, BlockingConnection(address) as connection:
        first, second = connection.start_all([ASK] * 2)
        here = memory(100_000)
        connection.receive_into(here)
        one = connection.result(first).body
        assert isinstance(one, memoryview)
        assert one.obj is here.obj
        connection.receive_into(None)
        here[:] = bytes(len(here))
        assert connection.result(second).body == b"two"


def test_a_peer_that_breaks_the_protocol_there_is_closed_and_the_memory_is_free() -> None:
    def garbage(accepted: socket.socket) -> None:
        (session, request), _ = requests(accepted, 2)
        answer = b"".join(session.answer(request, Response(body=b"one")))
        accepted.sendall(answer + b"\xff" * 100)

    with peer(garbage) as address, BlockingConnection(address) as connection:
        connection.receive_into(memory(100_000))
        first, second = connection.start_all([ASK] * 2)
        with pytest.raises(ConnectionClosed, match="broke the protocol"):
            connection.result(second)
        connection.receive_into(None)
        assert connection.result(first).body == b"one"


def test_a_frame_that_does_not_fit_has_no_room() -> None:
    landing = Landing(memory(5_000))
    room = landing.room()
    assert room is not None
    assert len(room) == 5_000
    assert landing.begin((9_000).to_bytes(4) + bytes(4))
    assert landing.room() is None
    assert landing.place(bytes(5_000)) is None
