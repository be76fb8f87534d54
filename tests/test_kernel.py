import logging
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from orbitmq import kernel
from tests import kernels

ROOT = Path(__file__).parent.parent


def module(version: str | None) -> ModuleType:
    made = ModuleType("orbitmq_speed")
    if version is not None:
        made.__dict__["__version__"] = version
    return made


def test_the_kernel_of_this_version_is_used(caplog: pytest.LogCaptureFixture) -> None:
    found = module(kernel.VERSION)
    assert kernel.load("", lambda: found) is found
    assert not caplog.records


def test_the_environment_switches_it_off() -> None:
    assert kernel.load("0", lambda: module(kernel.VERSION)) is None


def test_a_machine_without_it_notices_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def missing() -> ModuleType:
        raise ModuleNotFoundError("No module named 'orbitmq_speed'")

    assert kernel.load("", missing) is None
    assert not caplog.records


@pytest.mark.parametrize("version", ["0.0.1", None])
def test_one_of_another_version_is_not_used(
    version: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "orbitmq"):
        assert kernel.load("", lambda: module(version)) is None
    (record,) = caplog.records
    assert f"{version or 'unknown'}, and not used: install orbitmq[speed]" in record.getMessage()


def test_one_that_does_not_load_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> ModuleType:
        raise ImportError("wrong ELF class")

    with caplog.at_level(logging.WARNING, "orbitmq"):
        assert kernel.load("", broken) is None
    assert "can't be used: wrong ELF class" in caplog.text


def test_a_function_that_the_kernel_lacks_stays_python() -> None:
    def only_in_python() -> int:
        return 7

    try:
        assert kernel.compiled(only_in_python)() == 7
        assert kernel.IN_PYTHON["only_in_python"] is only_in_python
    finally:
        kernel._in_python.pop("only_in_python", None)


def test_all_functions_are_tested_in_both_implementations() -> None:
    assert {*kernels.in_python()} == {*kernel.IN_PYTHON}


@kernels.needs_kernel
def test_the_kernel_has_all_functions() -> None:
    assert all(map(callable, kernels.in_kernel().values()))


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    speed = tomllib.loads((ROOT / "speed" / "pyproject.toml").read_text())["project"]
    crate = tomllib.loads((ROOT / "speed" / "Cargo.toml").read_text())["package"]
    assert speed["version"] == crate["version"] == kernel.VERSION
    expected = [f"orbitmq-speed=={kernel.VERSION}", "isal>=1.6"]
    assert project["optional-dependencies"]["speed"] == expected
