"""What a job reads: topics of a cluster, or a store directory; both as the same rows.

>>> Topics("127.0.0.1:9876", ("orders", "refunds"))
<Topics orders,refunds at 127.0.0.1:9876>
>>> Store("data/store")
<Store data/store>
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from pyspark.sql import DataFrame, SparkSession

from orbitmq.blocking import Admin
from orbitmq.errors import InvalidInput
from orbitmq.spark.options.options import read_options

__all__ = ["Source", "Span", "Store", "Topics", "admin_of", "rows"]


class Topics(msgspec.Struct, frozen=True):
    """Topics of a cluster, read through its brokers.

    ``options`` are those of ``format("rocketmq")``, such as keys and TLS; see ``docs/spark.md``.
    """

    nameserver: str
    names: tuple[str, ...]
    options: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidInput("no topic is given; name at least one", field="topic")

    def __repr__(self) -> str:  # it appears in logs, so it shows no secret
        return f"<Topics {','.join(self.names)} at {self.nameserver}>"


class Store(msgspec.Struct, frozen=True):
    """A store directory, read without a broker; all topics, or those that are named.

    ``options`` are those of ``format("rocketmq-store")``.
    """

    directory: str
    names: tuple[str, ...] = ()
    options: Mapping[str, str] = {}

    def __repr__(self) -> str:
        only = f" {','.join(self.names)}" if self.names else ""
        return f"<Store {self.directory}{only}>"


Source: TypeAlias = Topics | Store


class Span(msgspec.Struct, frozen=True):
    """A range of store times in milliseconds since 1970; ``end_ms`` is exclusive."""

    start_ms: int | None = None
    end_ms: int | None = None

    def __post_init__(self) -> None:
        if self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms:
            raise InvalidInput(
                f"the range of times ends at {self.end_ms}, before it begins at {self.start_ms}",
                field="until",
            )


EVERYTHING: Final = Span()


def admin_of(source: Topics) -> Admin:
    """Return an admin of the cluster of a source, with its keys; it is not started."""
    given = {**source.options, "nameserver": source.nameserver, "subscribe": source.names[0]}
    access = msgspec.structs.asdict(read_options(given, streaming=False).access)
    access["address_map"] = dict(access["address_map"]) or None
    return Admin(**access, keep_open_ms=0)


def rows(
    spark: SparkSession, source: Source, columns: Sequence[str], span: Span = EVERYTHING
) -> DataFrame:
    """Return the messages of a source as the given columns; see ``docs/spark.md`` for all."""
    options = {"columns": ",".join(columns), **source.options}
    if "properties" in columns:
        options["includeProperties"] = "true"
    if source.names:
        options["subscribe"] = ",".join(source.names)
    if span.start_ms is not None:
        options["startingTimestamp"] = str(span.start_ms)
    if span.end_ms is not None:
        options["endingTimestamp"] = str(span.end_ms)
    if isinstance(source, Topics):
        reader = spark.read.format("rocketmq").options(nameserver=source.nameserver, **options)
        return reader.load()
    return spark.read.format("rocketmq-store").options(**options).load(source.directory)
