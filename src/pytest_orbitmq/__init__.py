"""The pytest plugin: a broker for each test, or one for all; see ``docs/testing.md``.

pytest loads this module in every run, wherever orbitmq is installed. So it imports pytest alone,
and the rest when a test asks for a broker; it lies outside of ``orbitmq``, whose door costs each
run 30 ms.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.broker import BrokerUnderTest

_MARK = "orbitmq"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, for ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(brokers=1, settings={{}}): the number of brokers, and settings of broker.conf, "
        "of this test's orbitmq_broker",
    )


@pytest.fixture(scope="session")
def orbitmq_settings() -> Mapping[str, str]:
    """Return settings of ``broker.conf`` for both; override it in your ``conftest.py``."""
    return {}


@pytest.fixture
def orbitmq_broker(
    request: pytest.FixtureRequest, orbitmq_settings: Mapping[str, str]
) -> "Iterator[BrokerUnderTest]":
    """Start a broker for this test alone, with a temporary store."""
    mark = request.node.get_closest_marker(_MARK)
    given: dict[str, Any] = dict(mark.kwargs) if mark is not None else {}
    given["settings"] = {**orbitmq_settings, **given.get("settings", {})}
    yield from _running(given)


@pytest.fixture(scope="session")
def orbitmq_session_broker(
    orbitmq_settings: Mapping[str, str],
) -> "Iterator[BrokerUnderTest]":
    """Start a broker that all tests share: each uses its own topics, and ends its faults."""
    yield from _running({"settings": orbitmq_settings})


def _running(given: Mapping[str, Any]) -> "Iterator[BrokerUnderTest]":
    from orbitmq.testing.broker import start  # noqa: PLC0415 - see above

    with start(**given) as broker:
        yield broker
