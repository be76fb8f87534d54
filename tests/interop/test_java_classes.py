"""The archives of RocketMQ's classes: what is in them, and what happens without them."""

import os
from pathlib import Path

import pytest

from tests.interop import java_classes, machine

JAVA = Path("opt/java-17")


@pytest.fixture(autouse=True)
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two jars."""
    monkeypatch.setattr(machine, "HOME", tmp_path)
    jars = tmp_path / "rocketmq-5.4.0"
    jars.mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (jars / name).touch()
    return jars


def test_each_java_and_each_release_has_its_own_archive(jars: Path) -> None:
    places = {
        java_classes.archive(directory, java)
        for directory in (jars, jars.with_name("rocketmq-4.9.7"))
        for java in (JAVA, JAVA.with_name("java-21"))
    }
    assert len(places) == 4


def test_an_archive_is_used_only_if_it_is_there(jars: Path) -> None:
    assert java_classes.options(jars, JAVA) == []
    place = java_classes.archive(jars, JAVA)
    place.touch()
    assert f"-XX:SharedArchiveFile={place}" in java_classes.options(jars, JAVA)


def test_the_class_path_has_one_order_however_the_directory_is_reached(jars: Path) -> None:
    link = jars.with_name("link")
    link.symlink_to(jars)
    expected = [str(jars.resolve() / name) for name in ("a.jar", "b.jar")]
    assert java_classes.class_path(jars) == java_classes.class_path(link) == expected


def test_what_is_there_is_left_alone(jars: Path) -> None:
    java_classes.archive(jars, JAVA).touch()
    assert java_classes.ensure("5.4.0", jars, JAVA).state == "found"


def test_without_java_or_jars_none_is_made(jars: Path) -> None:
    assert java_classes.ensure("5.4.0", jars, None).state == "skipped"
    missing = jars.with_name("rocketmq-1.0.0")
    assert java_classes.ensure("1.0.0", missing, JAVA).state == "skipped"


def test_an_archive_of_jars_that_changed_is_made_again(
    jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = java_classes.archive(jars, JAVA)
    place.touch()
    os.utime(place, (0, 0))  # older than the jars
    monkeypatch.setattr(java_classes, "run", lambda *_arguments, **_options: "no disk")
    told = java_classes.ensure("5.4.0", jars, JAVA)
    assert told.state == "skipped"
    assert "no disk" in told.why
    assert not place.exists()


def test_lists_are_merged_by_names() -> None:
    of_broker = ["# comment", "java/lang/Object id: 0", "a/Broker id: 7"]
    of_client = ["a/Client id: 7", "java/lang/Object id: 1", "@lambda-proxy a/Client run"]
    elsewhere = "a/Plugin id: 9 super: 0 source: plugin.jar"
    assert java_classes.merge([of_broker, [*of_client, elsewhere]]) == [
        "java/lang/Object",
        "a/Broker",
        "a/Client",
        "@lambda-proxy a/Client run",
    ]
