"""The pytest plugin, in a pytest of its own."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.architecture.sources import ROOT

pytest_plugins = ["pytester"]

# An installed orbitmq brings it along under the name of its entry point.
IS_INSTALLED = "orbitmq" in entry_points(group="pytest11").names
OPTIONS = (*("-p", "orbitmq" if IS_INSTALLED else "pytest_orbitmq"), "-q", "--strict-markers")


def ran(pytester: pytest.Pytester, code: str, **outcomes: int) -> pytest.RunResult:
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess(*OPTIONS, "-W", "error")
    result.assert_outcomes(**outcomes)
    return result


def test_each_test_has_a_broker_of_its_own_and_all_share_one(pytester: pytest.Pytester) -> None:
    code = """
        from orbitmq import Message
        from orbitmq.blocking import Producer

        seen = []

        def send(broker, topic):
            with Producer("shop", nameserver=broker.nameserver) as producer:
                producer.send(Message(topic, b"paid"))

        def test_one(orbitmq_broker, orbitmq_session_broker):
            for broker in (orbitmq_broker, orbitmq_session_broker):
                send(broker, "orders")
            seen.append(orbitmq_session_broker)

        def test_two(orbitmq_broker, orbitmq_session_broker):
            assert orbitmq_broker.messages("orders") == []
            assert len(orbitmq_session_broker.messages("orders")) == 1
            assert seen == [orbitmq_session_broker]
    """
    ran(pytester, code, passed=2)


def test_settings_come_from_the_conftest_and_the_mark(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def orbitmq_settings():
            return {"autoCreateTopicEnable": "false"}
        """
    )
    code = """
        import pytest
        from orbitmq import Message
        from orbitmq.blocking import Producer
        from orbitmq.errors import NoRoute

        def send(broker):
            with Producer("shop", nameserver=broker.nameserver) as producer:
                producer.send(Message("orders", b"paid"))

        def test_of_the_conftest(orbitmq_broker, orbitmq_session_broker):
            for broker in (orbitmq_broker, orbitmq_session_broker):
                with pytest.raises(NoRoute):
                    send(broker)
                broker.create_topic("orders")
                send(broker)

        @pytest.mark.orbitmq(brokers=2, settings={"autoCreateTopicEnable": "true"})
        def test_of_the_mark(orbitmq_broker):
            assert len(orbitmq_broker.brokers) == 2
            send(orbitmq_broker)
    """
    ran(pytester, code, passed=2)


def test_a_bad_mark_says_what_is_wrong(pytester: pytest.Pytester) -> None:
    code = """
        import pytest

        @pytest.mark.orbitmq(broker=2)
        def test_one(orbitmq_broker):
            pass

        @pytest.mark.orbitmq(brokers=0)
        def test_two(orbitmq_broker):
            pass

        @pytest.mark.orbitmq(2)
        def test_three(orbitmq_broker):
            pass

        @pytest.mark.orbitmq(settings="flushDiskType")
        def test_four(orbitmq_broker):
            pass

        @pytest.mark.orbitmq(settings={"autoCreateTopicEnabel": "false"})
        def test_five(orbitmq_broker):
            pass
    """
    said = ran(pytester, code, errors=5).stdout.str()
    assert "the mark orbitmq has no argument broker; did you mean brokers?" in said
    assert "brokers is 0; it must be from 1 to 26" in said
    assert "the mark orbitmq has no argument 2; it has brokers and settings" in said
    assert "settings of the mark orbitmq is 'flushDiskType'; give a dict" in said
    assert "did you mean autoCreateTopicEnable?" in said


def test_a_run_without_a_broker_loads_nothing_of_orbitmq(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_one():
            ours = {name for name in sys.modules if name.startswith("orbitmq")}
            assert "pytest_orbitmq" in sys.modules
            assert ours == set()
            assert "msgspec" not in sys.modules
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_the_broker_needs_no_pytest() -> None:
    code = """
import sys
sys.modules["pytest"] = None
from orbitmq.testing.broker import start
with start() as broker:
    print(broker.messages("orders"))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("[]\n", "")


def test_an_installation_brings_it_along() -> None:
    assert 'orbitmq = "pytest_orbitmq"' in (ROOT / "pyproject.toml").read_text()
    if IS_INSTALLED:
        (found,) = entry_points(group="pytest11", name="orbitmq")
        assert found.value == "pytest_orbitmq"
