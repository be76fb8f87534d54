"""The examples of docs/testing.md are tests, and pass."""

import re

import pytest

from orbitmq.testing.broker import BrokerUnderTest, Fault
from tests.architecture.sources import ROOT
from tests.testing.test_plugin import OPTIONS

pytest_plugins = ["pytester"]

TEXT = (ROOT / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"(?ms)^```python\n(.*?)^```", TEXT)


def test_the_examples_pass(pytester: pytest.Pytester) -> None:
    tests = [example for example in EXAMPLES if "\ndef test_" in example]
    assert len(tests) >= 6
    for number, example in enumerate(tests):
        pytester.makepyfile(**{f"test_{number}": example})
    pytester.runpytest_subprocess(*OPTIONS, "-W", "error").assert_outcomes(passed=len(tests))


def test_the_examples_without_pytest_run() -> None:
    (program,) = (example for example in EXAMPLES if "\ndef test_" not in example)
    exec(compile(program, "docs/testing.md", "exec"), {})


def test_all_faults_are_told() -> None:
    faults = [
        name
        for name, method in vars(BrokerUnderTest).items()
        if not name.startswith("_")
        and getattr(method, "__annotations__", {}).get("return") is Fault
    ]
    assert len(faults) == 8
    for name in faults:
        assert f"\n| `{name}(" in TEXT
