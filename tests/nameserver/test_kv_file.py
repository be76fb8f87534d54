"""The file of the KV config: written whole, read back, mended from its backup."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import DiskFailed, InvalidSetting
from orbitmq.nameserver.kv_config import KVConfig
from orbitmq.nameserver.kv_file import KVFile, SavedKVConfig
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.threads import Future, ThreadWorkers


def saved(path: Path, config: KVConfig | None = None) -> SavedKVConfig:
    return SavedKVConfig(config or KVConfig(), KVFile(str(path)), InlineWorkers())


def load(path: Path) -> KVConfig:
    async def scenario(_: VirtualClock) -> KVConfig:
        config = KVConfig()
        await saved(path, config).load()
        return config

    return run_virtual(scenario)


def put(path: Path, *values: str) -> None:
    async def scenario(_: VirtualClock) -> None:
        one = saved(path)
        await one.load()
        for value in values:
            one.config.put("n", "k", value)
            await one.save()

    run_virtual(scenario)


def test_what_was_put_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "made" / "kvConfig.json"
    assert load(path).namespace("n") is None
    put(path, "1", "上")
    assert load(path).get("n", "k") == "上"
    assert sorted(os.listdir(path.parent)) == ["kvConfig.json", "kvConfig.json.bak"]


def test_a_home_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert KVFile("~/namesrv/kvConfig.json").path == str(tmp_path / "namesrv/kvConfig.json")


@pytest.mark.parametrize("damage", [b'{"configTable":', b"\xff", b""])
def test_a_damaged_file_gives_way_to_its_backup_and_spares_it(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kvConfig.json"
    put(path, "old", "new")
    path.write_bytes(damage)
    assert load(path).get("n", "k") == "old"
    if damage:
        assert "loaded the older version" in caplog.text
        assert (tmp_path / "kvConfig.json.damaged").read_bytes() == damage
    put(path, "newest")
    assert load(path).get("n", "k") == "newest"


def test_a_file_that_cannot_be_used_at_all_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("[]")
    with pytest.raises(InvalidSetting, match="kvConfig.json is damaged .* remove it"):
        load(path)
    assert path.read_text() == "[]"


def test_a_failed_write_is_raised_and_the_next_one_includes_it(tmp_path: Path) -> None:
    directory = tmp_path / "place"
    directory.write_text("a file stands where the directory should")

    async def scenario(_: VirtualClock) -> None:
        one = saved(directory / "kvConfig.json")
        one.config.put("n", "k", "1")
        with pytest.raises(DiskFailed, match="can't write .*kvConfig.json: "):
            await one.save()
        directory.unlink()
        await one.save()

    run_virtual(scenario)
    assert load(directory / "kvConfig.json").get("n", "k") == "1"


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.mkdir()
    with pytest.raises(DiskFailed, match="can't read .*kvConfig.json: Is a directory"):
        load(path)


def test_many_changes_at_once_share_few_writes(tmp_path: Path) -> None:
    written: list[str] = []

    class Counted(KVFile):
        def write(self, text: str) -> None:
            written.append(text)
            super().write(text)

    async def scenario() -> KVConfig:
        config = KVConfig()
        with ThreadWorkers(1, name="test") as workers:
            one = SavedKVConfig(config, Counted(str(tmp_path / "kvConfig.json")), workers)

            async def change(number: int) -> None:
                config.put("n", str(number), "v")
                await one.save()

            await asyncio.gather(*map(change, range(50)))
        return config

    config = asyncio.run(scenario())
    assert load(tmp_path / "kvConfig.json").namespace("n") == config.namespace("n")
    assert len(written) <= 2


def test_a_change_made_during_a_write_is_written_by_the_next(tmp_path: Path) -> None:
    held: list[tuple[Future[None], str]] = []

    class Slow(InlineWorkers):
        """Writes when it is told to."""

        def submit(self, work: Any, *args: Any, **kwargs: Any) -> Any:
            held.append((Future(), args[0]))
            return held[-1][0]

    async def scenario(clock: VirtualClock) -> None:
        one = SavedKVConfig(KVConfig(), KVFile(str(tmp_path / "kvConfig.json")), Slow())
        one.config.put("n", "first", "1")
        first = asyncio.create_task(one.save())
        await clock.sleep(1)
        one.config.put("n", "second", "2")
        second = asyncio.create_task(one.save())
        await clock.sleep(1)
        assert [text for _, text in held] == ['{"configTable":{"n":{"first":"1"}}}']
        held[0][0].set_result(None)
        await first
        await clock.sleep(1)
        assert not second.done()
        assert held[1][1] == '{"configTable":{"n":{"first":"1","second":"2"}}}'
        held[1][0].set_result(None)
        await second

    run_virtual(scenario)


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    async def scenario(_: VirtualClock) -> None:
        one = SavedKVConfig(KVConfig(), None, InlineWorkers())
        await one.load()
        one.config.put("n", "k", "1")
        await one.save()

    run_virtual(scenario)
    assert os.listdir(tmp_path) == []
