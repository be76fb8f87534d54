"""The programs of docs/testing.md in other languages run, and start a broker beside themselves."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.interop import counterparts
from tests.interop.client_packages import GO, HERE
from tests.interop.conftest import decline

TEXT = (ROOT / "docs" / "testing.md").read_text()
TIMEOUT_S = 240


def program(language: str) -> str:
    (found,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```", TEXT)
    return str(found)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the command is on the PATH, and temporary files are the test's."""
    places = tmp_path / "bin", tmp_path / "temporary"
    for place in places:
        place.mkdir()
    command = places[0] / "orbitmq"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orbitmq "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{places[0]}:{os.environ['PATH']}",
        "TMPDIR": str(places[1]),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={places[1]} -Duser.home={tmp_path}",
    }


def ran(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_program_in_java(environment: dict[str, str], tmp_path: Path) -> None:
    if why := counterparts.missing_for("5.4.0"):
        decline(why)
    if shutil.which("javac") is None:
        pytest.skip("no javac on the PATH: a JRE alone compiles nothing")
    (tmp_path / "OrdersTest.java").write_text(program("java"))
    command = ["java", "-cp", f"{counterparts.jars_of('5.4.0')}/*", "OrdersTest.java"]
    assert "SEND_OK" in ran(command, environment, tmp_path).splitlines()  # among lines of logback


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_program_in_go(environment: dict[str, str], tmp_path: Path) -> None:
    if why := GO.missing():
        decline(why)
    if shutil.which("go") is None:
        pytest.skip("no go on the PATH")
    package = tmp_path / "shop"
    package.mkdir()
    (package / "orders_test.go").write_text(program("go"))
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, package)
    offline = {**environment, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    modules = ["go", "list", "-test", "-deps", "./..."]
    if subprocess.run(
        modules, cwd=package, env=offline, capture_output=True, check=False
    ).returncode:
        pytest.skip("the modules of the Go client are not in Go's cache")
    assert "PASS" in ran(["go", "test", "-vet=off", "-v", "./..."], offline, package)
