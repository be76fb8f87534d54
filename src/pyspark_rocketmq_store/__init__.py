"""Found by Spark, which looks for a ``DefaultSource`` in every package ``pyspark_…``."""

from orbitmq.spark.store_source.source import RocketMQStoreSource as DefaultSource

__all__ = ["DefaultSource"]
