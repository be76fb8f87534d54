"""Pieces of a log for replicas."""

from pathlib import Path

from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.tail import LogTail
from tests.store.logs import NOW, incoming, new_log


def test_the_pieces_are_the_files_and_none_crosses_two(tmp_path: Path) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming(bytes([65 + i]) * 1000) for i in range(10)], NOW)
    tail, position, copied = LogTail(log), 0, b""
    while piece := tail.piece(position, 1500):
        assert position // 4096 == (position + len(piece) - 1) // 4096
        copied += piece
        position += len(piece)
    assert position == tail.end == log.end
    assert copied == b"".join(bytes(one.view) for one in chain.files)[: log.end]
    assert tail.last_file_offset() == chain.files[-1].base


def test_there_is_nothing_outside_of_the_log(tmp_path: Path) -> None:
    log, _ = new_log(RealDisk(), str(tmp_path))
    tail = LogTail(log)
    assert (tail.first_offset, tail.end, tail.piece(0, 10)) == (0, 0, None)
    log.append([incoming()], NOW)
    assert tail.piece(tail.end, 10) is None
    assert tail.piece(tail.end + 1, 10) is None
    assert tail.piece(-1, 10) is None
