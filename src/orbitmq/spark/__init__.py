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

    def __getattr__(name: str) -> object:
        """Import a name on first use."""
        with import_module("orbitmq.spark.extra").needing_extra(f"orbitmq.spark.{name}"):
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
        globals()[name] = value
        return value


__all__ = ["RocketMQSource", "drop_duplicates", "register", "session", "settling"]
