"""What ``import orbitmq.spark`` gives, and what it leaves for later."""

import subprocess
import sys

import pytest

import orbitmq.spark

HEAVY = {"pyspark", "pyarrow", "numpy", "asyncio"}


def test_the_names_of_the_door_are_there() -> None:
    for name in orbitmq.spark.__all__:
        assert getattr(orbitmq.spark, name).__name__ == name


def test_importing_it_imports_no_spark() -> None:
    code = "import sys, orbitmq.spark; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(ran.stdout.split())


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sesion'"):
        _ = orbitmq.spark.sesion  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "numpy"])
def test_without_the_extra_the_error_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from orbitmq.spark import session"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == (
        "orbitmq.errors.MissingExtra: orbitmq.spark.session needs an extra package: "
        "pip install 'orbitmq[spark]'"
    )


def test_another_import_that_fails_is_told_as_it_is() -> None:
    code = "import sys; sys.modules['msgspec.json'] = None; from orbitmq.spark import session"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" not in ran.stderr
    assert "msgspec" in ran.stderr.splitlines()[-1]
