"""Every option of the Spark source: its names, where it counts, and what holds without it.

``docs/spark.md`` has the same table, and a test compares them. Spark hands options over with their
names in small letters, so that names are told apart without regard to case.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import Flag, auto
from typing import Final, NamedTuple

from orbitmq.errors import InvalidOption, UnknownOption

__all__ = ["OPTIONS", "Option", "Use", "named"]


class Use(Flag):
    """What an option may be given to."""

    BATCH = auto()
    STREAM = auto()
    WRITE = auto()
    READ = BATCH | STREAM
    ANY = READ | WRITE


class Option(NamedTuple):
    """One option.

    Attributes:
        name: as the documentation writes it.
        use: what it may be given to.
        default: what holds without it, as the documentation writes it; empty if nothing does.
        aliases: the names that rocketmq-spark, or RocketMQ itself, has for it.

    """

    name: str
    use: Use
    default: str = ""
    aliases: tuple[str, ...] = ()


OPTIONS: Final = (
    # whom to ask, and as whom
    Option("nameserver", Use.ANY, "$NAMESRV_ADDR", ("namesrvAddr",)),
    Option("namespace", Use.ANY),
    Option("accessKey", Use.ANY),
    Option("secretKey", Use.ANY),
    Option("securityToken", Use.ANY),
    Option("tls", Use.ANY, "false"),
    Option("tlsVerify", Use.ANY, "true"),
    Option("tlsCaFile", Use.ANY),
    Option("tlsCertFile", Use.ANY),
    Option("tlsKeyFile", Use.ANY),
    Option("tlsKeyPassword", Use.ANY),
    Option("addressMap", Use.ANY),
    Option("requestTimeoutMs", Use.ANY, "3000", ("pullTimeoutMs",)),
    Option("groupId", Use.ANY, "", ("group",)),
    # what to read: exactly one of the first three
    Option("subscribe", Use.READ, "", ("topic",)),
    Option("subscribePattern", Use.READ),
    Option("assign", Use.READ),
    Option("tags", Use.READ, "*", ("subExpression",)),
    Option("columns", Use.READ, "all"),
    Option("includeProperties", Use.READ, "true"),
    # from where to where
    Option("startingOffsets", Use.READ, "earliest; a stream: latest"),
    Option("startingTimestamp", Use.READ),
    Option("endingOffsets", Use.BATCH, "latest"),
    Option("endingTimestamp", Use.BATCH),
    Option("failOnDataLoss", Use.READ, "true"),
    # in which pieces
    Option("minPartitions", Use.READ),
    Option("maxRecordsPerPartition", Use.READ),
    Option("pullCount", Use.READ, "1024", ("pullBatchSize",)),
    Option("pushFilters", Use.BATCH, "false"),
    # batches of a stream
    Option("maxOffsetsPerTrigger", Use.STREAM),
    Option("minOffsetsPerTrigger", Use.STREAM),
    Option("maxTriggerDelay", Use.STREAM, "15m"),
    Option("commitOffsets", Use.STREAM, "true with groupId"),
    # writing
    Option("topic", Use.WRITE),
    Option("onReject", Use.WRITE, "fail"),
    Option("idColumn", Use.WRITE),
    Option("batchBytes", Use.WRITE, "1048576"),
    Option("sendTimeoutMs", Use.WRITE, "30000"),
    Option("retries", Use.WRITE, "100"),
    Option("compressOverBytes", Use.WRITE, "4096"),
)

_SPARKS_OWN: Final = frozenset({"path", "paths", "checkpointlocation", "queryname"})
"""What Spark itself adds, as ``load("…")`` and ``queryName("…")`` do; it means nothing here."""
_OF_TABLES: Final = "option."
"""What ``CREATE TABLE`` puts before the names of options, to keep them with the table."""

_USES: Final[Mapping[Use, str]] = {
    Use.BATCH: "batch reads",
    Use.STREAM: "streaming reads",
    Use.READ: "reads",
    Use.WRITE: "writes",
}


def named(given: Mapping[str, str], use: Use) -> dict[str, str]:
    """Return the options that were given, by their own names; values without blanks around.

    Args:
        given: what the user, and Spark, said.
        use: what for.

    Raises:
        UnknownOption: there is no option of that name.
        InvalidOption: it counts elsewhere only, was given by two names, or is empty; or they are
            those of a table.

    >>> named({"subexpression": " paid ", "path": "…"}, Use.BATCH)
    {'tags': 'paid'}

    """
    known = {
        name.lower(): option
        for option in OPTIONS
        if use & option.use
        for name in (option.name, *option.aliases)
    }
    found: dict[str, str] = {}
    said: dict[str, str] = {}
    _check_is_no_table(given)
    for name, value in given.items():
        key = name.lower()
        if key in _SPARKS_OWN:
            continue
        if key not in known:
            raise _unknown(name, use, known)
        option = known[key].name
        if option in found:
            raise InvalidOption(
                f"{said[option]} and {name} are one option; give it once, as {option}", field=option
            )
        if not value.strip():
            raise InvalidOption(f"{option} is empty; give a value, or leave it out", field=option)
        found[option], said[option] = value.strip(), name
    return found


def _check_is_no_table(given: Mapping[str, str]) -> None:
    """Refuse to be made a table, which nobody could read.

    Found by trying it on Spark 4.3: what the table was made with is not handed to a reader.
    """
    if any(name.lower().startswith(_OF_TABLES) for name in given):
        raise InvalidOption(
            "a table can't be made of a topic: Spark doesn't hand the options of a table to a "
            "Python source when it is read. Write CREATE TEMPORARY VIEW … USING rocketmq "
            "OPTIONS (…)",
            field="options",
        )


def _unknown(name: str, use: Use, known: Mapping[str, Option]) -> InvalidOption:
    for option in OPTIONS:
        if name.lower() == option.name.lower():
            return InvalidOption(
                f"{option.name} is an option of {_USES[option.use]}, and means nothing to "
                f"{_USES[use]}; leave it out",
                field=option.name,
            )
    nearest = get_close_matches(name.lower(), known, n=1)
    return UnknownOption(name, nearest=known[nearest[0]].name if nearest else None)
