"""The compressed form of a registration."""

import json
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidBody
from orbitmq.wire.bodies.registration import (
    INFLATED_LIMIT,
    BrokerRegistration,
    TopicConfigAndMappingTable,
    body_crc32,
)
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.wire.bodies.topic import DataVersion, TopicConfig

BODIES = json.loads((Path(__file__).parents[2] / "golden" / "bodies.json").read_text())["bodies"]
(GOLDEN,) = (body for body in BODIES if "inflated_hex" in body)
COMPRESSED, INFLATED = bytes.fromhex(GOLDEN["hex"]), bytes.fromhex(GOLDEN["inflated_hex"])


def test_java_s_bytes_are_read() -> None:
    read = BrokerRegistration.from_compressed(memoryview(COMPRESSED))
    topic = TopicConfig.from_text('GoldTopic 4 4 6 SINGLE_TAG {"+message.type":"NORMAL"}')
    topics = TopicConfigAndMappingTable(
        data_version=DataVersion(counter=7, state_version=1, timestamp=1700000000000),
        topic_config_table={"GoldTopic": topic},
    )
    assert read == BrokerRegistration(topics=topics)
    assert body_crc32(COMPRESSED) == int(GOLDEN["utilall_crc32_of_hex"])


def test_java_s_bytes_are_written() -> None:
    written = BrokerRegistration.from_compressed(COMPRESSED).to_compressed()
    assert zlib.decompress(written) == INFLATED


def test_mappings_and_filter_servers_are_carried() -> None:
    mapping = TopicQueueMappingInfo(topic="T", bname="a", total_queues=2, curr_id_map={0: 1})
    body = BrokerRegistration(
        filter_server_list=("10.0.0.7:1",),
        topics=TopicConfigAndMappingTable(topic_queue_mapping_info_map={"T": mapping}),
    )
    assert BrokerRegistration.from_compressed(body.to_compressed()) == body
    assert BrokerRegistration.from_json(body.to_json()) == body


def test_a_broker_before_5_leaves_the_mappings_out() -> None:
    old = zlib.compress(INFLATED[:-4])
    expected = BrokerRegistration.from_compressed(COMPRESSED)
    assert BrokerRegistration.from_compressed(old) == expected


@given(st.integers(0, len(INFLATED) - 5))
def test_a_body_cut_short_is_refused(size: int) -> None:
    with pytest.raises(InvalidBody):
        BrokerRegistration.from_compressed(zlib.compress(INFLATED[:size]))


@given(st.integers(0, len(INFLATED) - 1), st.binary(min_size=1, max_size=5))
def test_damage_gives_a_body_or_invalid_body(start: int, damage: bytes) -> None:
    damaged = INFLATED[:start] + damage + INFLATED[start + len(damage) :]
    with suppress(InvalidBody):
        read = BrokerRegistration.from_compressed(zlib.compress(damaged))
        assert isinstance(read, BrokerRegistration)


def test_a_count_or_length_beyond_the_body_is_refused() -> None:
    for number in (-1, 2**31 - 1):
        huge = struct.pack(">i", number) + INFLATED[4:]
        with pytest.raises(InvalidBody, match="expected at byte 4"):
            BrokerRegistration.from_compressed(zlib.compress(huge))


def test_what_opens_too_far_is_refused() -> None:
    inflater = zlib.compressobj(9)
    chunk = bytes(1024 * 1024)
    pieces = [inflater.compress(chunk) for _ in range(INFLATED_LIMIT // len(chunk) + 1)]
    bomb = b"".join((*pieces, inflater.flush()))
    with pytest.raises(InvalidBody, match="decompress to more than"):
        BrokerRegistration.from_compressed(bomb)


@pytest.mark.parametrize("data", [b"", b"{}", COMPRESSED[:-1], COMPRESSED[:20]])
def test_what_is_no_whole_zlib_stream_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidBody, match="zlib"):
        BrokerRegistration.from_compressed(data)
