"""``orbitmq pipeline rebuild`` says what it made, and what it can't do."""

import json
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from tests.store.golden import contents, unpack
from tests.store.unpacked import flip

SIZES = {
    "mappedFileSizeCommitLog": 262144,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 100,
    "maxIndexNum": 300,
}


@pytest.mark.usefixtures("spark")
def test_lines_json_and_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = unpack("normal", tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in SIZES.items()))
    asked = ["pipeline", "rebuild", "--store", str(golden.root), "-c", str(conf)]
    assert main([*asked, "--to", str(tmp_path / "made")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Log        2 files, " in lines[0]
    assert all(len(line) <= 80 for line in lines if not line.startswith("Directory"))
    assert contents(tmp_path / "made" / "consumequeue") == contents(golden.root / "consumequeue")
    assert main([*asked, "--to", str(tmp_path / "made")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not empty" in line
    flip(golden.root / "commitlog" / f"{0:020d}", 8)
    assert main([*asked, "--in-place", "--skip-damaged", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["directory"]) == (199, str(golden.root))
    assert len(found["damages"]) >= 1
    assert main([*asked[:3], str(tmp_path / "no"), "--in-place"]) == 2
    assert "is no directory" in capsys.readouterr().err
