"""All options of the Spark source: their names, operations and defaults.

``docs/spark.md`` has the same table, and a test compares them. Spark passes option names in lower
case, so case doesn't matter.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Flag, auto
from typing import Final, NamedTuple

from orbitmq.errors import InvalidOption, UnknownOption

__all__ = ["OPTIONS", "STORE_OPTIONS", "Operation", "Option", "known_options"]


class Operation(Flag):
    """What an option applies to."""

    BATCH = auto()
    STREAM = auto()
    WRITE = auto()
    READ = BATCH | STREAM
    ANY = READ | WRITE


class Option(NamedTuple):
    """One option; ``name`` and ``default`` (empty if there is none) are as in the documentation.

    ``aliases`` are its names in rocketmq-spark or RocketMQ itself.
    """

    name: str
    operation: Operation
    default: str = ""
    aliases: tuple[str, ...] = ()


OPTIONS: Final = (
    # access to the cluster
    Option("nameserver", Operation.ANY, "$NAMESRV_ADDR", ("namesrvAddr",)),
    Option("namespace", Operation.ANY),
    Option("accessKey", Operation.ANY),
    Option("secretKey", Operation.ANY),
    Option("securityToken", Operation.ANY),
    Option("tls", Operation.ANY, "false"),
    Option("tlsVerify", Operation.ANY, "true"),
    Option("tlsCaFile", Operation.ANY),
    Option("tlsCertFile", Operation.ANY),
    Option("tlsKeyFile", Operation.ANY),
    Option("tlsKeyPassword", Operation.ANY),
    Option("addressMap", Operation.ANY),
    Option("requestTimeoutMs", Operation.ANY, "3000", ("pullTimeoutMs",)),
    Option("groupId", Operation.ANY, "", ("group",)),
    # what to read: exactly one of the first three
    Option("subscribe", Operation.READ, "", ("topic",)),
    Option("subscribePattern", Operation.READ),
    Option("assign", Operation.READ),
    Option("tags", Operation.READ, "*", ("subExpression",)),
    Option("columns", Operation.READ, "all"),
    Option("includeProperties", Operation.READ, "false"),
    # where to begin and end
    Option("startingOffsets", Operation.READ, "earliest; a stream: latest"),
    Option("startingTimestamp", Operation.READ),
    Option("endingOffsets", Operation.BATCH, "latest"),
    Option("endingTimestamp", Operation.BATCH),
    Option("failOnDataLoss", Operation.READ, "true"),
    # how to divide the work
    Option("minPartitions", Operation.READ),
    Option("maxRecordsPerPartition", Operation.READ),
    Option("pullCount", Operation.READ, "1024", ("pullBatchSize",)),
    Option("pushFilters", Operation.BATCH, "false"),
    # batches of a stream
    Option("maxOffsetsPerTrigger", Operation.STREAM),
    Option("minOffsetsPerTrigger", Operation.STREAM),
    Option("maxTriggerDelay", Operation.STREAM, "15m"),
    Option("commitOffsets", Operation.STREAM, "true with groupId"),
    # writing
    Option("topic", Operation.WRITE),
    Option("onReject", Operation.WRITE, "fail"),
    Option("idColumn", Operation.WRITE),
    Option("batchBytes", Operation.WRITE, "1048576"),
    Option("sendTimeoutMs", Operation.WRITE, "30000"),
    Option("retries", Operation.WRITE, "100"),
    Option("compressOverBytes", Operation.WRITE, "4096"),
)

STORE_OPTIONS: Final = (
    # what to read: everything, or one of the first two
    Option("subscribe", Operation.BATCH, "", ("topic",)),
    Option("subscribePattern", Operation.BATCH),
    Option("include", Operation.BATCH),
    Option("columns", Operation.BATCH, "all"),
    Option("includeProperties", Operation.BATCH, "false"),
    Option("broker", Operation.BATCH),
    Option("commitLog", Operation.BATCH, "commitlog", ("storePathCommitLog",)),
    # where to begin and end
    Option("startingOffsets", Operation.BATCH, "earliest"),
    Option("startingTimestamp", Operation.BATCH),
    Option("endingOffsets", Operation.BATCH, "latest"),
    Option("endingTimestamp", Operation.BATCH),
    # how to divide the work, and what to do with bad places
    Option("minPartitions", Operation.BATCH),
    Option("onCorrupt", Operation.BATCH, "fail"),
)
"""The options of ``format("rocketmq-store")``, which only batches can read."""

_SPARKS_OWN: Final = frozenset({"path", "paths", "checkpointlocation", "queryname"})
"""Options that Spark adds for ``load("…")``, ``queryName("…")`` and so on; ignored."""
_OF_TABLES: Final = "option."
"""The prefix that ``CREATE TABLE`` adds to the options of a table."""

_OPERATIONS: Final[Mapping[Operation, str]] = {
    Operation.BATCH: "batch reads",
    Operation.STREAM: "streaming reads",
    Operation.READ: "reads",
    Operation.WRITE: "writes",
}


def known_options(
    given: Mapping[str, str], operation: Operation, options: Sequence[Option] = OPTIONS
) -> dict[str, str]:
    """Return the given options by their proper names, with trimmed values.

    Raise UnknownOption if there is no option of that name, and InvalidOption if it applies to
    another operation, is given under two names, or is empty, or if the options are those of a
    table.

    >>> known_options({"subexpression": " paid ", "path": "…"}, Operation.BATCH)
    {'tags': 'paid'}
    """
    known = {
        name.lower(): option
        for option in options
        if operation & option.operation
        for name in (option.name, *option.aliases)
    }
    found: dict[str, str] = {}
    given_names: dict[str, str] = {}
    _check_is_no_table(given)
    for name, value in given.items():
        key = name.lower()
        if key in _SPARKS_OWN:
            continue
        if key not in known:
            raise _unknown(name, operation, known, options)
        option = known[key].name
        if option in found:
            raise InvalidOption(
                f"{given_names[option]} and {name} are the same option; give {option} once",
                field=option,
            )
        if not value.strip():
            raise InvalidOption(f"{option} is empty; give a value, or leave it out", field=option)
        found[option], given_names[option] = value.strip(), name
    return found


def _check_is_no_table(given: Mapping[str, str]) -> None:
    """Refuse a table, which could not be read.

    Spark 4.3 doesn't pass the options of a table to its reader (found by experiment).
    """
    if any(name.lower().startswith(_OF_TABLES) for name in given):
        raise InvalidOption(
            "a topic can't be a table: Spark doesn't pass the options of a table to a Python "
            "source when it is read. Write CREATE TEMPORARY VIEW … USING rocketmq OPTIONS (…)",
            field="options",
        )


def _unknown(
    name: str, operation: Operation, known: Mapping[str, Option], options: Sequence[Option]
) -> InvalidOption:
    for option in options:
        if name.lower() == option.name.lower():
            return InvalidOption(
                f"{option.name} is an option of {_OPERATIONS[option.operation]}, and has no effect "
                f"on {_OPERATIONS[operation]}; leave it out",
                field=option.name,
            )
    nearest = get_close_matches(name.lower(), known, n=1)
    return UnknownOption(name, nearest=known[nearest[0]].name if nearest else None)
