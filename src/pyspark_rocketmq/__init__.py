"""Found by Spark, which looks for a ``DefaultSource`` in every package ``pyspark_…``."""

from orbitmq.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
