import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.interop import counterparts, spark_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes depends on the machine; a hang is the business of the test's timeout.
# The suite tries the same examples in each run, so that a red one tells of the change; the soak
# searches anew each time.
settings.register_profile("orbitmq", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile("soak" if os.environ.get("ORBITMQ_SOAK") == "1" else "orbitmq")

spark_classes.speed_up(os.environ, counterparts.java_home())

# Fixtures that a whole run shares: files that ask for one run one after the other in one process,
# so that it is started once. One that asks for both goes with Spark, which takes longer to start.
_JAVA = frozenset(
    {"java_540", "java_497", "java_550", "java_cluster_540", "java_cluster_497"}
    | {"java", "java_cluster", "team"}
)
# Files that start Sparks or Javas of their own. They begin early: a long one that begins last
# leaves the other cores idle.
_LONG = (
    *("spark/test_kills", "interop/test_spark_places", "interop/test_producer_ways"),
    *("spark/test_sessions", "interop/test_producer_faults", "demo/test_run"),
    *("test_reference_docs", "interop/test_producer_secured", "cli/servers/test_up"),
)
_TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and files that share a costly fixture."""
    groups = {item.path: item.path.relative_to(_TESTS).as_posix() for item in items}
    for item in items:
        asked_for = frozenset(getattr(item, "fixturenames", ()))
        if "spark" in asked_for:
            groups[item.path] = "spark"
        elif asked_for & _JAVA and groups[item.path].startswith("interop/"):  # not Spark's already
            groups[item.path] = "java"
    first = ("spark", "java", *(f"{file}.py" for file in _LONG))
    items.sort(key=lambda item: [*first, groups[item.path]].index(groups[item.path]))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.path]))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A Spark with two cores that tries tasks twice. Don't stop it; unset what you set."""
    from orbitmq.spark.sessions import session  # noqa: PLC0415 - only who asks waits for pyspark

    running = session("tests", master="local[2,2]")
    yield running
    running.stop()
