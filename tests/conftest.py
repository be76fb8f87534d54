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
# so that it is started once. A file that asks for several belongs to the first group here.
_GROUPS = {
    "spark": {"spark"},
    "java servers": {"java_cluster", "java_cluster_540", "java_cluster_497"},
    "java clients": {"java", "java_540", "java_497", "java_550", "team"},
}
# Files that start Sparks or Javas of their own, each a group by itself. They begin early: a long
# one that begins last leaves the other cores idle.
_LONG = (
    *("interop/test_store_exchange", "spark/test_kills", "interop/test_spark_places"),
    *("interop/test_producer_ways", "spark/test_sessions", "interop/test_producer_faults"),
    *("interop/test_nameserver", "interop/test_producer_outbox", "demo/test_run"),
    *("test_reference_docs", "interop/test_producer_secured", "cli/servers/test_up"),
)
_TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and files that share a costly fixture."""
    asked_for: dict[Path, set[str]] = {}
    for item in items:
        asked_for.setdefault(item.path, set()).update(getattr(item, "fixturenames", ()))
    groups = {path: _group_of(path, names) for path, names in asked_for.items()}
    order = [*_GROUPS, *_LONG]
    order += dict.fromkeys(group for group in groups.values() if group not in order)
    position = {group: index for index, group in enumerate(order)}
    items.sort(key=lambda item: position[groups[item.path]])
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.path]))


def _group_of(file: Path, asked_for: set[str]) -> str:
    name = file.relative_to(_TESTS).with_suffix("").as_posix()
    if name not in _LONG:
        for group, fixtures in _GROUPS.items():
            if fixtures & asked_for and (group == "spark" or name.startswith("interop/")):
                return group
    return name


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A Spark with two cores that tries tasks twice. Don't stop it; unset what you set."""
    from orbitmq.spark.sessions import session  # noqa: PLC0415 - only who asks waits for pyspark

    running = session("tests", master="local[2,2]")
    yield running
    running.stop()
