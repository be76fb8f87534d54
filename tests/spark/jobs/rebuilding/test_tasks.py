"""The tasks of a rebuild, called without Spark; ``test_rebuild`` has them in Spark."""

from pathlib import Path

import msgspec
import pyarrow as pa

from orbitmq.spark.jobs.rebuilding.tasks import FILE, KEYS, PLACES, Log, scan
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.rebuild.log_parts import LogFile, log_files
from tests.store.golden import unpack
from tests.store.rebuild.made import Made, settings_of


def test_a_scan_yields_the_parts_of_the_files_that_it_is_given(tmp_path: Path) -> None:
    golden = unpack("normal", tmp_path)
    log = Log(str(golden.root), settings_of(golden))
    bases = log_files(log.reader())
    batches = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(len(bases))]
    rows = [row for batch in scan(log, bases, batches) for row in batch.to_pylist()]
    made = Made(StoreReader(str(golden.root)), log.settings, tmp_path / "made")
    files = [
        msgspec.msgpack.decode(row["data"], type=LogFile) for row in rows if row["kind"] == FILE
    ]
    assert files == made.files
    places = sum(row["count"] for row in rows if row["kind"] == PLACES)
    assert places == sum(queue.entries for queue in made.queues())
    assert sum(row["count"] for row in rows if row["kind"] == KEYS) == sum(f.keys for f in files)
    assert {row["base"] for row in rows} == set(bases)
