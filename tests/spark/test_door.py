"""What ``import orbitmq.spark`` gives, and what it leaves for later."""

import subprocess
import sys

import pytest

import orbitmq.spark

HEAVY = {"pyspark", "pyarrow", "numpy", "asyncio"}


def test_the_public_names_exist() -> None:
    for name in orbitmq.spark.__all__:
        assert getattr(orbitmq.spark, name).__name__ == name


def test_importing_it_imports_no_spark() -> None:
    code = "import sys, orbitmq.spark; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(ran.stdout.split())


def test_an_unknown_name_is_an_attribute_error() -> None:
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


def test_another_failed_import_is_raised_unchanged() -> None:
    code = "import sys; sys.modules['msgspec.json'] = None; from orbitmq.spark import session"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" not in ran.stderr
    assert "msgspec" in ran.stderr.splitlines()[-1]
