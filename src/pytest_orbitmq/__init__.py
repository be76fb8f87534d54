"""The pytest plugin: a broker for each test, or one for all; see ``docs/testing.md``.

pytest loads this module in every run, wherever orbitmq is installed. So it imports pytest alone,
and the rest when a test asks for a broker; it lies outside of ``orbitmq``, whose door costs each
run 30 ms.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.broker import BrokerUnderTest

_MARK = "orbitmq"
_ARGUMENTS = ("brokers", "settings")


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
    given = {} if mark is None else _checked(mark)
    given["settings"] = {**orbitmq_settings, **given.get("settings", {})}
    yield from _running(given)


def _checked(mark: pytest.Mark) -> dict[str, Any]:
    """Return the arguments of a mark; fail the test if they can't be those of a broker."""
    wrong = [repr(one) for one in mark.args] + [one for one in mark.kwargs if one not in _ARGUMENTS]
    if wrong:
        near = difflib.get_close_matches(wrong[0], _ARGUMENTS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"it has {' and '.join(_ARGUMENTS)}"
        pytest.fail(f"the mark {_MARK} has no argument {wrong[0]}; {meant}", pytrace=False)
    settings = mark.kwargs.get("settings", {})
    if not isinstance(settings, dict):
        pytest.fail(
            f"settings of the mark {_MARK} is {settings!r}; give a dict, as "
            '{"flushDiskType": "SYNC_FLUSH"}',
            pytrace=False,
        )
    return dict(mark.kwargs)


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
