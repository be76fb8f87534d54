from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orbitmq.client.consumer.offsets.local import LocalOffsets
from orbitmq.errors import StoreDamaged
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.wire.bodies.offsets import LocalOffsetTable

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-b", 3)

# The text of OffsetSerializeWrapper.toJson(true) of 5.4.0, which LocalFileOffsetStore writes.
OF_JAVA = """{
\t"offsetTable":{
\t\t{
\t\t\t"brokerName":"broker-b",
\t\t\t"queueId":3,
\t\t\t"topic":"orders"
\t\t}:7,
\t\t{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"orders"
\t\t}:12
\t}
}"""


def play(
    directory: Path, story: Callable[[LocalOffsets], Awaitable[None]], client_id: str = "10.0.0.7@x"
) -> None:
    async def main(_clock: VirtualClock) -> None:
        offsets = LocalOffsets(str(directory), client_id, "billing", InlineWorkers())
        await story(offsets)

    run_virtual(main)


def file_in(directory: Path, name: str = "offsets.json") -> Path:
    path = directory / "10.0.0.7@x" / "billing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_offsets_survive_in_the_file(tmp_path: Path) -> None:
    async def write(offsets: LocalOffsets) -> None:
        await offsets.load()
        assert await offsets.stored(QUEUE) is None
        offsets.update(QUEUE, 5)
        assert await offsets.stored(QUEUE) is None
        await offsets.persist()
        await offsets.persist([OTHER])  # nothing is known of it
        offsets.update(QUEUE, 3)
        await offsets.persist(confirm=True)
        assert "offsets.json" in repr(offsets)

    async def read(offsets: LocalOffsets) -> None:
        assert offsets.get(QUEUE) is None
        assert await offsets.stored(QUEUE) == 5

    play(tmp_path, write)
    play(tmp_path, read)
    table = LocalOffsetTable.from_json(file_in(tmp_path).read_bytes())
    assert dict(table.offset_table) == {QUEUE: 5}
    assert b'{{"' in file_in(tmp_path).read_bytes()  # Java reads objects as keys alone


def test_a_file_of_java_is_read_and_its_other_queues_are_kept(tmp_path: Path) -> None:
    file_in(tmp_path).write_text(OF_JAVA)

    async def story(offsets: LocalOffsets) -> None:
        assert await offsets.stored(QUEUE) == 12
        offsets.update(QUEUE, 20)
        await offsets.persist()
        assert (await offsets.stored(QUEUE), await offsets.stored(OTHER)) == (20, 7)

    play(tmp_path, story)
    assert file_in(tmp_path, "offsets.json.bak").read_text() == OF_JAVA


@pytest.mark.parametrize("damage", ["", "{", "[1]"])
def test_the_backup_is_used_for_a_damaged_file(tmp_path: Path, damage: str) -> None:
    file_in(tmp_path).write_text(damage)
    file_in(tmp_path, "offsets.json.bak").write_text(OF_JAVA)

    async def story(offsets: LocalOffsets) -> None:
        assert await offsets.stored(QUEUE) == 12

    play(tmp_path, story)


def test_files_that_cannot_be_read_are_not_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file_in(tmp_path).write_text("{")
    file_in(tmp_path, "offsets.json.bak").write_text("{")

    async def story(offsets: LocalOffsets) -> None:
        with pytest.raises(StoreDamaged, match="repair or remove"):
            await offsets.load()
        offsets.update(QUEUE, 5)
        await offsets.persist()

    play(tmp_path, story)
    assert file_in(tmp_path).read_text() == "{"
    assert "offsets are not stored" in caplog.text
