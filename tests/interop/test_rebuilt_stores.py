"""Java's broker starts on a store whose queues and index were rebuilt, and serves all of it."""

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java_cluster import JavaBroker
from tests.interop.java_server import PATIENT
from tests.interop.our_servers import our_nameserver
from tests.interop.store_parties import JavaStore
from tests.store.golden import contents, unpack
from tests.store.rebuild.test_target import rebuild

SIZES = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
)
VERSION = "5.4.0"


@pytest.mark.parametrize("name", ["normal", "crash"])
def test_java_serves_all_messages(name: str, tmp_path: Path) -> None:
    if (why := counterparts.missing_for(VERSION)) is not None:
        decline(why)
    golden = unpack(name, tmp_path / "store")
    queues = contents(golden.root / "consumequeue")
    shutil.rmtree(golden.root / "consumequeue")
    shutil.rmtree(golden.root / "index")
    rebuild(golden, replace=False)
    config = golden.manifest["config"]
    sent = [*golden.manifest["sends"]]
    with our_nameserver(tmp_path) as nameserver:
        settings = {one: config[one] for one in SIZES}
        java = JavaBroker(VERSION, tmp_path, nameserver=nameserver, settings=settings)
        try:
            java.start()
            places: dict[tuple[str, int], list[int]] = defaultdict(list)
            for one in sent:
                places[one["topic"], one["queueId"]].append(one["queueOffset"])
            for topic in {topic for topic, _ in places}:
                java.create_topic(topic, queues=4)  # a killed broker had not saved its topics
            with BlockingConnection(java.address, settings=PATIENT) as connection:
                asked = JavaStore(connection)
                for (topic, queue_id), offsets in places.items():
                    found = asked.queue(topic, queue_id)
                    assert [message.queue_offset for message in found] == sorted(offsets)
                ids = [one["msgId"] for one in sent[:20]]
                hits = asked.by_key(sent[0]["topic"], ids, unique=True)
                own = [one for one in sent[:20] if one["topic"] == sent[0]["topic"]]
                assert sum(map(len, hits)) == len(own)
            java.stop()
        finally:
            java.kill()
    after = contents(golden.root / "consumequeue")
    assert {path: after[path] for path in queues if re.match("Golden", path)} == {
        path: data for path, data in queues.items() if re.match("Golden", path)
    }
