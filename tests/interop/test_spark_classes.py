"""The archive of Spark's classes: where it is, and that a machine without it is served."""

from pathlib import Path

import pytest

from tests.interop import machine, spark_classes

JAVA = Path("opt/java-17")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "HOME", tmp_path)
    return tmp_path


def test_each_java_has_its_own_archive() -> None:
    assert spark_classes.archive(JAVA) != spark_classes.archive(JAVA.with_name("java-21"))


def test_an_archive_is_used_only_if_it_is_there() -> None:
    for java_home in (JAVA, None):
        environment: dict[str, str] = {}
        spark_classes.speed_up(environment, java_home)
        assert "SharedArchiveFile" not in environment["SPARK_SUBMIT_OPTS"]
    spark_classes.archive(JAVA).touch()
    environment = {}
    spark_classes.speed_up(environment, JAVA)
    assert str(spark_classes.archive(JAVA)) in environment["SPARK_SUBMIT_OPTS"]


def test_options_that_are_set_already_stay() -> None:
    environment = {"SPARK_SUBMIT_OPTS": "-Xmx2g"}
    spark_classes.speed_up(environment, JAVA)
    assert environment["SPARK_SUBMIT_OPTS"] == "-Xmx2g"


def test_what_is_there_is_left_alone() -> None:
    spark_classes.archive(JAVA).touch()
    assert spark_classes.ensure(JAVA).state == "found"
    assert spark_classes.ensure(None).state == "skipped"
