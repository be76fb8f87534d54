"""What a wheel brings: its documents, found by those who have no checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.architecture.sources import ROOT


def test_the_documents_are_in_the_wheel_and_errors_lead_to_them(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    documents = tmp_path / "site" / "orbitmq" / "docs"
    assert pages(documents) == pages(ROOT / "docs")

    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = "from orbitmq.errors import TopicNotFound; print(TopicNotFound(17, None).docs)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{documents}/errors.md#topicnotfound\n"


def pages(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.md")}
