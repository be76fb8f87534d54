import json
from typing import Any

import pytest

from orbitmq.broker.pulling.held_pulls import HeldPull, HeldPulls
from orbitmq.broker.reports.runtime_info import RuntimeInfo
from orbitmq.store.disk.disk import Usage
from orbitmq.store.settings import StoreSettings
from orbitmq.wire.frame import FrameReader
from tests.broker.fake_clients import Client, frame
from tests.broker.send_world import SMALL, SendWorld
from tests.golden_files import golden
from tests.store.logs import NOW, incoming

GIB = 1024**3


class Scene(SendWorld):
    def __init__(self, store: StoreSettings = SMALL, **settings: Any) -> None:
        super().__init__(store, **settings)
        self.held = HeldPulls(10)
        self.usage = Usage(total=240 * GIB, used=52 * GIB, reserved=10 * GIB)

    def figures(self) -> dict[str, str]:
        return RuntimeInfo(
            settings=self.settings,
            store=self.store,
            stats=self.stats,
            inbox=self.inbox,
            held=self.held,
            delays=self.delays,
            timers=self.timers,
            disk_usage=lambda: self.usage,
            clock=self.clock,
        ).figures()


def recorded() -> dict[str, str]:
    """Return the runtime info of a Java broker."""
    (answer,) = (
        one
        for one in golden("session_json")["frames"]
        if one["request_name"] == "GET_BROKER_RUNTIME_INFO" and one["kind"] == "response"
    )
    (read,) = FrameReader().feed(bytes.fromhex(answer["hex"]))
    table: dict[str, str] = json.loads(bytes(read.body))["table"]
    return table


def test_there_is_a_figure_for_each_of_java_s() -> None:
    scene = Scene()
    scene.put(incoming(properties=b"DELAY\x011\x02", topic="SCHEDULE_TOPIC_XXXX"))
    keys = {key.partition("/")[0] for key in recorded()}  # its directory is another one
    ours = {key.partition("/")[0] for key in scene.figures()}
    assert ours == keys | {"heldPulls", "getTransferedTps"}


def test_numbers_are_written_as_java_s_tools_read_them() -> None:
    theirs, ours = recorded(), Scene().figures()
    for key in theirs.keys() & ours.keys():
        if theirs[key].isdecimal():
            assert ours[key].lstrip("-").isdecimal(), key


def test_the_store_is_reported() -> None:
    scene = Scene()
    assert scene.figures()["earliestMessageTimeStamp"] == "-1"
    scene.put(incoming(), incoming())
    figures = scene.figures()
    assert figures["commitLogMinOffset"] == "0"
    assert figures["commitLogMaxOffset"] == str(scene.store.log.end)
    assert figures["remainHowManyDataToFlush"] == f"{scene.store.log.end} B"
    assert figures["earliestMessageTimeStamp"] == str(NOW)
    assert figures["putMessageTimesTotal"] == "2"
    assert figures["brokerVersionDesc"] == "V5_4_0"


def test_disk_use_is_reported_in_whole_percent_rounded_up() -> None:
    figures = Scene().figures()
    assert figures["commitLogDiskRatio"] == "0.22"
    assert figures["commitLogDiskRatio_/store/commitlog"] == "0.22"
    assert figures["commitLogDirCapacity"] == "Total : 250.0 GiB, Free : 198.0 GiB."


def test_queues_are_reported() -> None:
    scene = Scene(send_thread_pool_queue_capacity=77)
    scene.inbox.put(incoming(), lambda _outcome: None)
    scene.clock.now += 30
    scene.held.hold(HeldPull(Client().connection, frame(), "orders", 0, NOW))
    figures = scene.figures()
    assert figures["sendThreadPoolQueueSize"] == "1"
    assert figures["sendThreadPoolQueueHeadWaitTimeMills"] == "30"
    assert figures["sendThreadPoolQueueCapacity"] == "77"
    assert figures["pullThreadPoolQueueSize"] == "0"
    assert figures["heldPulls"] == "1"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**60, "1.0 EiB")]
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    scene = Scene()
    scene.usage = Usage(total=size, used=0)
    assert scene.figures()["commitLogDirCapacity"] == f"Total : {text}, Free : {text}."
