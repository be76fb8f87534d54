"""Each byte of a record that a checksum covers, flipped; the rules are those of one record."""

from pathlib import Path

import numpy as np
import pytest

from orbitmq.message.record import LEAST_SIZE
from orbitmq.spark.store_source.checksums import are_whole
from orbitmq.spark.store_source.heads import Bytes, Heads
from tests.spark.store_source.made_logs import LogMaker


def written(maker: LogMaker) -> Bytes:
    file = Path(maker.write()) / "commitlog" / f"{0:020d}"
    return np.frombuffer(bytearray(file.read_bytes()), np.uint8)


def whole(data: Bytes, maker: LogMaker) -> bool:
    heads = Heads(data, np.array(maker.starts))
    assert heads.add_up(0).all()
    return are_whole(data, heads)


def test_a_flipped_bit_of_a_body_is_found_and_one_of_an_unsealed_property_is_not(
    tmp_path: Path,
) -> None:
    maker = LogMaker(tmp_path)
    for number in range(20):
        maker.add(b"pizza %d" % number, properties=b"TAGS\x01paid\x02")
    data = written(maker)
    assert whole(data, maker)
    heads = Heads(data, np.array(maker.starts))
    data[heads.body_ends[13] - 1] ^= 1
    assert not whole(data, maker)
    data[heads.body_ends[13] - 1] ^= 1
    data[heads.text_starts[13]] ^= 1
    assert whole(data, maker)


def test_a_seal_covers_all_of_its_record(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    maker.add(b"no seal")
    at = maker.add_sealed(b"sealed")
    data = written(maker)
    assert whole(data, maker)
    for place in (
        at + 8,
        at + 60,
        at + LEAST_SIZE + 8,
        int(Heads(data, np.array([at])).ends[0]) - 2,
    ):
        data[place] ^= 1
        assert not are_whole(data, Heads(data, np.array(maker.starts)))
        data[place] ^= 1


def test_the_checksum_of_an_empty_body_does_not_matter(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    maker.add(b"", body_crc=77)
    assert whole(written(maker), maker)


@pytest.mark.parametrize("sectors", [0, 1, 2])
def test_zeros_up_to_the_end_of_a_sector_are_a_torn_write(sectors: int, tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    maker.add(b"before")
    at = maker.add(b"1 pizza", properties=b"NOTE\x01" + b"x" * 1_500 + b"\x02")
    data = written(maker)
    assert whole(data, maker)
    heads = Heads(data, np.array([at]))
    texts, end = int(heads.text_starts[0]), int(heads.ends[0])
    first = (texts // 512 + 1) * 512
    stop = (first, first + 512, end)[sectors]
    data[stop - 10 : stop] = 0
    assert not whole(data, maker)
    data[stop - 10 : stop] = 1
    assert whole(data, maker)
