import tomllib

import orbitmq
from orbitmq.version import VERSION
from tests.architecture.sources import ROOT


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION == orbitmq.__version__
