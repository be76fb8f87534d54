"""What numpy reads of many heads, compared with what a view reads of each."""

import random
from pathlib import Path

import numpy as np

from orbitmq.message.record_view import RecordView
from orbitmq.spark.store_source.heads import Bytes, Heads
from tests.spark.store_source.made_logs import SEGMENT, log_of_all_kinds


def segment(tmp_path: Path, seed: int) -> tuple[Bytes, list[int]]:
    maker = log_of_all_kinds(tmp_path, 60, seed)
    data = bytearray((Path(maker.write()) / "commitlog" / f"{0:020d}").read_bytes())
    return np.frombuffer(data, np.uint8), [at for at in maker.starts if at < SEGMENT]


def test_places_and_numbers_of_records_of_every_kind(tmp_path: Path) -> None:
    data, starts = segment(tmp_path, 4)
    heads = Heads(data, np.array(starts))
    assert len(heads) == len(starts)
    assert heads.add_up(0).all()
    view = data.data
    for row, start in enumerate(starts):
        one = RecordView(view, start, int(heads.ends[row]) - start)
        assert view[heads.body_starts[row] : heads.body_ends[row]] == one.body
        assert view[heads.topic_starts[row] : heads.topic_ends[row]] == one.topic
        assert view[heads.text_starts[row] : heads.ends[row]] == one.properties
        assert heads.stored_ms[row] == one.store_timestamp_ms
        assert heads.sys_flags[row] == one.sys_flag
        assert heads.number("queue_offset")[row] == one.queue_offset


def test_a_record_that_lies_elsewhere_does_not_add_up(tmp_path: Path) -> None:
    data, starts = segment(tmp_path, 4)
    assert not Heads(data, np.array(starts)).add_up(1).any()


def test_lengths_that_do_not_add_up_are_found_and_nothing_is_read_beyond(tmp_path: Path) -> None:
    whole, starts = segment(tmp_path, 5)
    sizes = np.diff([*starts, 0])
    chance = random.Random(5)
    for row in chance.sample(range(len(starts) - 1), 12):
        heads = Heads(whole, np.array(starts))
        magic, body = starts[row] + 4, int(heads.body_starts[row]) - 1
        for place in (magic, body, int(heads.topic_starts[row]) - 1):  # and two lengths
            data = whole[: starts[row] + sizes[row]].copy()
            data[place] ^= 0x7F
            sound = Heads(data, np.array(starts[: row + 1])).add_up(0)
            assert sound[:row].all()
            assert not sound[row]
