"""What ``import orbitmq`` gives, and what it leaves for later."""

import subprocess
import sys

import pytest

import orbitmq

HEAVY = (
    *("asyncio", "ssl", "socket", "orbitmq.client", "orbitmq.net", "orbitmq.store", "uvloop"),
    *("pyspark", "pyarrow", "numpy", "pytest", "opentelemetry", "importlib.metadata"),
)


def test_the_names_of_the_door_are_there() -> None:
    for name in orbitmq.__all__:
        assert getattr(orbitmq, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Prodcer'"):
        _ = orbitmq.Prodcer  # type: ignore[attr-defined]


def test_the_help_of_the_command_imports_no_command() -> None:
    code = (
        "import sys\nfrom orbitmq.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(); print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.splitlines()[-1].split())
    commands = {name for name in imported if name.startswith("orbitmq.cli.")}
    assert not imported & set(HEAVY)
    assert commands <= {f"orbitmq.cli.{name}" for name in ("main", "problems", "render")}


def test_what_is_heavy_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys, orbitmq; print(*sys.modules); print(); "
        "from orbitmq import Producer; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (set(part.split()) for part in ran.stdout.split("\n\n"))
    assert not before & set(HEAVY)
    assert {"asyncio", "orbitmq.client.producer.producer"} <= after
