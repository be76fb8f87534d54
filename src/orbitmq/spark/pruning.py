"""Tells our sources which columns a query uses, which Spark doesn't tell a Python source.

A rule for Spark's optimizer narrows the scans of a query (``ColumnPruning.java``). It runs on the
driver only, and Spark's own compiler, Janino, compiles it there: there is no jar to install. The
rule uses classes that Spark may change in any release. So it is on only for versions that our tests
run, and if it fails, the query runs as it would without it.
"""

import logging
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

__all__ = ["PRUNING", "install"]

log = logging.getLogger("orbitmq.spark")

PRUNING: Final = "spark.orbitmq.columnPruning"
"""The setting that switches the rule off: ``false``, at any time."""

_TESTED: Final = ("4.3.",)
_CLASS: Final = "orbitmq.ColumnPruning"
_SOURCE: Final = Path(__file__).with_name("ColumnPruning.java")


def install(spark: SparkSession) -> bool:
    """Have a session prune the columns of our sources; return whether it does.

    It doesn't with Spark Connect, where the optimizer is on the server, nor with other versions.
    A second call changes nothing.
    """
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None or not spark.version.startswith(_TESTED):
        return False
    try:
        experimental = session.experimental()
        rules = experimental.extraOptimizations()
        if not any(_is_ours(rules.apply(number)) for number in range(rules.length())):
            rule = _compiled(spark)
            getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
    except Py4JError as error:
        why = str(getattr(error, "java_exception", error)).partition("\n")[0]
        log.warning("queries read all columns of rocketmq sources: %s", why)
        return False
    return True


def _is_ours(rule: Any) -> bool:
    return bool(rule.getClass().getName() == _CLASS)


def _compiled(spark: SparkSession) -> Any:
    """Return a new rule, compiled in the driver's Java."""
    java: Any = spark._jvm  # the only way to Java
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text())
    return compiler.getClassLoader().loadClass(_CLASS).newInstance()
