"""Changed settings reach the file of a server, or the operator reads why not."""

import asyncio
from pathlib import Path

import pytest

from orbitmq.net.refusal import Refusal
from orbitmq.net.settings_file import SettingsFile
from orbitmq.settings import from_arguments
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.threads import ThreadWorkers
from orbitmq.wire.codes import ResponseCode


def test_without_a_file_nothing_is_written() -> None:
    asyncio.run(SettingsFile(None, InlineWorkers()).save(from_arguments(["a=1"])))


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("")
    workers = ThreadWorkers(2, name="test")

    async def change_all() -> None:
        file = SettingsFile(str(path), workers)
        await asyncio.gather(*(file.save(from_arguments([f"key{n}={n}"])) for n in range(20)))

    asyncio.run(change_all())
    workers.close()
    assert sorted(path.read_text().split()) == sorted(f"key{n}={n}" for n in range(20))


def test_what_can_not_be_written_is_said_to_hold_until_the_stop(tmp_path: Path) -> None:
    file = SettingsFile(str(tmp_path / "gone.conf"), InlineWorkers())
    with pytest.raises(Refusal, match="in force, but only until the server stops: .*gone") as no:
        asyncio.run(file.save(from_arguments(["a=1"])))
    assert no.value.code == ResponseCode.SYSTEM_ERROR
