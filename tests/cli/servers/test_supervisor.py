"""Processes under a supervisor; ``test_up`` shows that a process that dies is restarted."""

import asyncio
from pathlib import Path

import pytest

from orbitmq.cli.servers.supervisor import ProcessFailed, Supervisor
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from tests.broker.exchanges import sent


def broker(store: Path) -> list[str]:
    properties = ("listenPort=0", f"storePathRootDir={store}", "mappedFileSizeCommitLog=8388608")
    return ["broker", *(part for one in properties for part in ("--set", one))]


def test_processes_report_their_addresses_and_are_stopped_cleanly(tmp_path: Path) -> None:
    async def main() -> None:
        commands = {name: broker(tmp_path / name) for name in ("one", "two")}
        async with Supervisor(commands) as supervisor:
            assert list(supervisor.ready) == ["one", "two"]
            for address in supervisor.ready.values():
                with BlockingConnection(Address.parse(address)) as connection:
                    await asyncio.to_thread(sent, connection, "orders", b"paid")

    asyncio.run(main())
    for name in ("one", "two"):
        assert not (tmp_path / name / "abort").exists()


def test_a_process_that_cannot_start_is_an_error_and_stops_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        commands = {"good": broker(tmp_path), "bad": ["broker", "--set", "listenPort=many"]}
        with pytest.raises(ProcessFailed, match="bad ended before it was ready: exit status 2"):
            async with Supervisor(commands):
                pass

    asyncio.run(main())
    assert not (tmp_path / "abort").exists()
