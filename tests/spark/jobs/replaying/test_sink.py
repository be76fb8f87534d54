"""The plan of a replay reaches the tasks, and says nothing secret."""

import msgspec
from pyspark.sql.types import StructType

from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.replaying.pace import Rate
from orbitmq.spark.jobs.replaying.sink import FORMAT, PLAN, ReplaySink, SinkPlan

PLANNED = SinkPlan(
    "again", "/ledger", [(MessageQueue("a", "b", 0), MessageQueue("again", "b", 1))], Rate(5.0)
)


def test_a_plan_crosses_as_an_option() -> None:
    options = {
        "nameserver": "127.0.0.1:1",
        "accessKey": "alice",
        "secretKey": "sesame",
        PLAN.lower(): msgspec.json.encode(PLANNED).decode(),
    }
    assert "sesame" not in options[PLAN.lower()]
    writer = ReplaySink(options).writer(StructType(), overwrite=False)
    assert ReplaySink.name() == FORMAT
    assert writer._plan == PLANNED  # type: ignore[attr-defined]
    assert writer._options.access.secret_key == "sesame"  # type: ignore[attr-defined]
