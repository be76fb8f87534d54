"""RocketMQ as a Spark data source: ``format("rocketmq")`` to read, stream and write.

::

    import orbitmq.spark

    spark = orbitmq.spark.session()
    orders = spark.read.format("rocketmq").options(nameserver="127.0.0.1:9876", subscribe="orders")
    orders.load().groupBy("tags").count().show()

Names are imported on first use. Without PySpark, the error says what to install.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.spark.sessions import register, session
    from orbitmq.spark.source import RocketMQSource
    from orbitmq.spark.writing.deduplication import drop_duplicates
    from orbitmq.spark.writing.settling import settling
else:
    from orbitmq.errors import MissingExtra

    # The packages of the extra; a missing one of another name is a bug that must show.
    _EXTRA = frozenset({"numpy", "py4j", "pyarrow", "pyspark"})

    def __getattr__(name: str) -> object:
        """Import a name on first use."""
        try:
            if name in ("register", "session"):
                value: object = getattr(import_module("orbitmq.spark.sessions"), name)
            elif name == "RocketMQSource":
                value = import_module("orbitmq.spark.source").RocketMQSource
            elif name == "drop_duplicates":
                value = import_module("orbitmq.spark.writing.deduplication").drop_duplicates
            elif name == "settling":
                value = import_module("orbitmq.spark.writing.settling").settling
            else:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            raise MissingExtra(f"orbitmq.spark.{name}", extra="spark") from error
        globals()[name] = value
        return value


__all__ = ["RocketMQSource", "drop_duplicates", "register", "session", "settling"]
