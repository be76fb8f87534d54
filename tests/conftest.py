import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import groups
from tests.interop import counterparts, spark_classes
from tests.kernels import implementation  # noqa: F401 - a fixture of all tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes depends on the machine; a hang is the business of the test's timeout.
# The suite tries the same examples in each run, so that a red one tells of the change; the soak
# searches anew each time.
settings.register_profile("orbitmq", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile("soak" if os.environ.get("ORBITMQ_SOAK") == "1" else "orbitmq")

# The cluster that a shell is set to is not that of the tests.
for _name in ("ORBITMQ_NAMESERVER", "NAMESRV_ADDR"):
    os.environ.pop(_name, None)

# Under nohup the first is ignored, in the background of a script the second: also by the servers
# and commands that tests start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

spark_classes.speed_up(os.environ, counterparts.java_home())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups that take long."""
    items.sort(key=lambda item: groups.position(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> groups.Groups | None:
    """Keep the tests of a group in one process."""
    return groups.Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="module", autouse=True)
def _no_producer_left() -> Iterator[None]:
    """Close what writes of this process left open: the thread of its loop is shared by name."""
    yield
    if "orbitmq.spark.writing.producers" in sys.modules:
        sys.modules["orbitmq.spark.writing.producers"].close_producers()


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A Spark with two cores that tries tasks twice. Don't stop it; unset what you set."""
    from orbitmq.spark.sessions import session  # noqa: PLC0415 - only who asks waits for pyspark

    running = session("tests", master="local[2,2]")
    yield running
    running.stop()
