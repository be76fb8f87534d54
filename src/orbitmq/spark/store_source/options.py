"""The options of a read of a store directory, parsed and checked on the driver.

>>> store_options({"path": "/data/store", "subscribe": "orders"}).topics
('orders',)
>>> store_options({"path": "/data/store", "subscibe": "orders"})
Traceback (most recent call last):
orbitmq.errors.UnknownOption: there is no option 'subscibe'; did you mean subscribe?
"""

import enum
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput, InvalidOffsets, InvalidOption
from orbitmq.message.names import check_stored_topic
from orbitmq.spark.offsets import EARLIEST, LATEST, Bound
from orbitmq.spark.options.table import STORE_OPTIONS, Operation, known_options
from orbitmq.spark.options.values import Values
from orbitmq.spark.schema import PROPERTIES, check_read_columns
from orbitmq.spark.store_source.schema import CORRUPT, STORE_COLUMNS

__all__ = [
    "ALL_TIME_MS",
    "Include",
    "OnCorrupt",
    "QueueKey",
    "StoreOptions",
    "limit_of",
    "offsets_by_queue",
    "store_options",
]

_INT32_MAX: Final = 2**31 - 1
_FOREVER: Final = 2**63 - 1
ALL_TIME_MS: Final = 2**63 - 1
"""The end of a range of times without an end."""

QueueKey = tuple[str, int]


class OnCorrupt(enum.Enum):
    """What a place of the log that can't be read does to a read."""

    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


class Include(enum.Enum):
    """Kinds of messages that are left out unless they are asked for."""

    HALVES = "halves"
    DELAYED = "delayed"
    SYSTEM = "system"


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read; see ``docs/spark.md``. Tasks get them pickled."""

    directory: str
    commit_log: str | None = None
    topics: tuple[str, ...] = ()
    """The topics to read; none for all that ``pattern`` and ``include`` allow."""
    pattern: str | None = None
    include: frozenset[Include] = frozenset()
    columns: tuple[str, ...] = STORE_COLUMNS
    broker: str | None = None
    start: Bound = Bound("earliest")
    end: Bound = Bound("latest")
    min_partitions: int | None = None
    on_corrupt: OnCorrupt = OnCorrupt.FAIL

    @property
    def times_ms(self) -> tuple[int, int]:
        """The range of store times to read; the end is exclusive."""
        begin = self.start.timestamp_ms if self.start.kind == "timestamp" else 0
        end = self.end.timestamp_ms if self.end.kind == "timestamp" else ALL_TIME_MS
        return begin, end


def store_options(given: Mapping[str, str]) -> StoreOptions:
    """Parse the options of a read; names may be in any case.

    Raise UnknownOption for an unknown name, InvalidOffsets if offsets are invalid JSON, and
    InvalidOption if no directory is given, a value is invalid, or two contradict each other.
    """
    values = Values(known_options(given, Operation.BATCH, STORE_OPTIONS))
    on_corrupt = OnCorrupt(_one_of(values, "onCorrupt", [one.value for one in OnCorrupt]))
    options = StoreOptions(
        directory=_directory(given),
        commit_log=values.text("commitLog") or None,
        topics=_topics(values),
        pattern=_pattern(values),
        include=_include(values),
        columns=_columns(values, on_corrupt),
        broker=values.text("broker") or None,
        start=values.bound("starting", default="earliest", any_broker=True),
        end=values.bound("ending", default="latest", any_broker=True),
        min_partitions=values.optional_number("minPartitions", high=_INT32_MAX),
        on_corrupt=on_corrupt,
    )
    if options.start.kind == "latest":
        raise InvalidOption(
            "startingOffsets is latest: the read would be empty", field="startingOffsets"
        )
    if options.end.kind == "earliest":
        raise InvalidOption(
            "endingOffsets is earliest: the read would be empty", field="endingOffsets"
        )
    begin, end = options.times_ms
    if begin >= end:
        raise InvalidOption(
            f"endingTimestamp is {end}, not after startingTimestamp {begin}: the read would be "
            "empty",
            field="endingTimestamp",
        )
    return options


def _directory(given: Mapping[str, str]) -> str:
    paths = [value for name, value in given.items() if name.lower() == "path" and value.strip()]
    if not paths:
        raise InvalidOption(
            "no store directory is given; write load('/path/of/the/store'), the directory that "
            "storePathRootDir names",
            field="path",
        )
    return re.sub("^file:(//)?", "", paths[0].strip())


def _topics(values: Values) -> tuple[str, ...]:
    if "subscribe" not in values:
        return ()
    if "subscribePattern" in values:
        raise InvalidOption(
            "subscribe and subscribePattern are both given; give only one",
            field="subscribePattern",
        )
    names = tuple(dict.fromkeys(values.words("subscribe")))
    for name in names:
        try:
            check_stored_topic(name)
        except InvalidInput as error:
            raise InvalidOption(f"subscribe: {error}", field="subscribe") from error
    return names


def _pattern(values: Values) -> str | None:
    if "subscribePattern" not in values:
        return None
    pattern = values.text("subscribePattern")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidOption(
            f"subscribePattern {pattern[:60]!r} is not a regular expression: {error}",
            field="subscribePattern",
        ) from error
    return pattern


def _include(values: Values) -> frozenset[Include]:
    if "include" not in values:
        return frozenset()
    known = [one.value for one in Include]
    return frozenset(Include(_known("include", word, known)) for word in values.words("include"))


def _columns(values: Values, on_corrupt: OnCorrupt) -> tuple[str, ...]:
    reports = on_corrupt is OnCorrupt.REPORT
    picked = (
        check_read_columns(values.words("columns"), (*STORE_COLUMNS, CORRUPT))
        if "columns" in values
        else tuple(name for name in STORE_COLUMNS if name != PROPERTIES)
    )
    if CORRUPT in picked and not reports:
        raise InvalidOption(
            f"columns has {CORRUPT}, which there is with onCorrupt=report only", field="columns"
        )
    if "includeProperties" in values:
        include = values.flag("includeProperties", default=False)
        if "columns" in values and include != (PROPERTIES in picked):
            raise InvalidOption(
                f"includeProperties is {str(include).lower()}, but columns says otherwise; "
                "columns alone is enough",
                field="includeProperties",
            )
        if include and "columns" not in values:
            picked = STORE_COLUMNS
    return (*picked, CORRUPT) if reports and CORRUPT not in picked else picked


def _one_of(values: Values, option: str, known: list[str]) -> str:
    return _known(option, values.text(option, known[0]), known)


def _known(option: str, word: str, known: list[str]) -> str:
    if word.lower() in known:
        return word.lower()
    near = get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise InvalidOption(f"{option}: there is no {word[:60]!r}; {hint}", field=option)


def offsets_by_queue(bound: Bound, field: str) -> dict[QueueKey, int]:
    """Return the offsets of a bound by topic and queue: a store has one broker.

    Raise InvalidOffsets if two brokers have an offset for one queue.
    """
    found: dict[QueueKey, int] = {}
    for queue, offset in bound.offsets.items():
        key = queue.topic, queue.queue_id
        if key in found:
            raise InvalidOffsets(
                f"{field} has queue {queue.queue_id} of {queue.topic} twice, by two brokers; a "
                "store is that of one broker",
                field=field,
            )
        found[key] = offset
    return found


def limit_of(offset: int) -> int:
    """Return an offset of a bound as a number that offsets of messages can be compared with.

    >>> limit_of(EARLIEST), limit_of(12), limit_of(LATEST) == 2**63 - 1
    (0, 12, True)
    """
    return {EARLIEST: 0, LATEST: _FOREVER}.get(offset, offset)
