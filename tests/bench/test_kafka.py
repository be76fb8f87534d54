from pathlib import Path

import pytest

from bench import kafka


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.interop.counterparts.java_home", lambda: None)

    assert kafka.missing() == "no Java 11 or later"


def test_jars_that_are_not_there_are_not_had_without_maven(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.interop.counterparts.java_home", lambda: tmp_path)
    monkeypatch.setattr(kafka, "_COMPLETE", tmp_path / "nothing")
    monkeypatch.setattr("shutil.which", lambda name: None)

    assert kafka.missing() == "Maven is needed to fetch the jars"
