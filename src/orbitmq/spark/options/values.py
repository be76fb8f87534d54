"""Parses the values of options; an error names the option and shows the start of its value."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal

from orbitmq.errors import InvalidInput, InvalidOption
from orbitmq.net.address import Address
from orbitmq.spark.offset_json import parse_offsets
from orbitmq.spark.offsets import Bound

__all__ = ["Values"]

_SHOWN_MAX: Final = 60
_INT64_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION: Final = re.compile(r"([0-9]{1,12}) ?([a-z]*)")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_DURATION_MAX_MS: Final = 366 * 86_400_000


class Values:
    """The given options by name.

    >>> values = Values({"minPartitions": "8", "failOnDataLoss": "false"})
    >>> values.optional_number("minPartitions", high=100), values.flag("tls", default=False)
    (8, False)
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)

    def __contains__(self, option: object) -> bool:
        return option in self._given

    def text(self, option: str, default: str = "") -> str:
        """Return a text."""
        return self._given.get(option, default)

    def words(self, option: str) -> tuple[str, ...]:
        """Return the parts of a comma-separated list, trimmed; none is empty."""
        words = tuple(word.strip() for word in self.text(option).split(","))
        if "" in words:
            raise InvalidOption(
                f"{option} is {_shown(self.text(option))}; separate names by commas",
                field=option,
            )
        return words

    def flag(self, option: str, *, default: bool) -> bool:
        """Return true or false."""
        text = self.text(option, str(default)).lower()
        if text not in ("true", "false"):
            raise InvalidOption(f"{option} is {_shown(text)}, not true or false", field=option)
        return text == "true"

    def optional_number(self, option: str, *, high: int) -> int | None:
        """Return a number of at least 1; None if it is not given."""
        return self.number(option, 1, high=high) if option in self else None

    def number(self, option: str, default: int, *, low: int = 1, high: int) -> int:
        """Return a whole number within its limits."""
        text = self.text(option, str(default))
        if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
            raise InvalidOption(
                f"{option} is {_shown(text)}; it must be a whole number from {low} to {high}",
                field=option,
            )
        return int(text)

    def duration_ms(self, option: str, default_ms: int) -> int:
        """Return a duration such as ``15m``, ``30s`` or ``500ms``; a bare number is in ms."""
        text = self.text(option, f"{default_ms}ms").lower()
        found = _DURATION.fullmatch(text)
        unit_ms = _UNITS_MS.get(found[2] or "ms") if found else None
        if found is None or unit_ms is None or int(found[1]) * unit_ms > _DURATION_MAX_MS:
            raise InvalidOption(
                f"{option} is {_shown(text)}; write a duration of at most a year, such as 15m, 30s "
                "or 500ms",
                field=option,
            )
        return int(found[1]) * unit_ms

    def bound(
        self,
        end: Literal["starting", "ending"],
        *,
        default: Literal["earliest", "latest"],
        any_broker: bool = False,
    ) -> Bound:
        """Return where a read starts or ends, given as offsets or as a time.

        ``any_broker`` is that of ``parse_offsets``.
        """
        offsets, timestamp = f"{end}Offsets", f"{end}Timestamp"
        if offsets in self and timestamp in self:
            raise InvalidOption(
                f"{offsets} and {timestamp} are both given; give only one", field=timestamp
            )
        if timestamp in self:
            return Bound("timestamp", timestamp_ms=self.timestamp_ms(timestamp))
        text = self.text(offsets, default)
        if text.startswith("{"):
            return Bound("offsets", parse_offsets(text, field=offsets, any_broker=any_broker))
        match text.lower():
            case "earliest":
                return Bound("earliest")
            case "latest":
                return Bound("latest")
            case other:
                near = get_close_matches(other, ["earliest", "latest"], n=1)
        hint = f"did you mean {near[0]}?" if near else "write earliest, latest or JSON."
        raise InvalidOption(
            f"{offsets} is {_shown(text)}; {hint} Offsets as JSON look like "
            '{"orders": {"broker-a:0": 12}}',
            field=offsets,
        )

    def timestamp_ms(self, option: str) -> int:
        """Return a time in milliseconds since 1970; the value may be ISO 8601 with a zone."""
        text = self.text(option)
        if _NUMBER.fullmatch(text) and 0 <= int(text) <= _INT64_MAX:
            return int(text)
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            parsed = None
        if parsed is None or parsed.tzinfo is None or parsed.timestamp() < 0:
            raise InvalidOption(
                f"{option} is {_shown(text)}; write milliseconds since 1970, or a time with its "
                "zone, such as 2026-01-31T12:00:00Z",
                field=option,
            )
        return round(parsed.timestamp() * 1000)

    def address_map(self, option: str) -> tuple[tuple[str, str], ...]:
        """Return pairs of addresses from a JSON object, sorted."""
        if option not in self:
            return ()
        try:
            pairs = json.loads(self.text(option))
        except (ValueError, RecursionError):
            pairs = None
        if not isinstance(pairs, dict) or not all(isinstance(to, str) for to in pairs.values()):
            raise InvalidOption(
                f"{option} is {_shown(self.text(option))}; write JSON such as "
                '{"172.17.0.3": "127.0.0.1"}',
                field=option,
            )
        for advertised, reached in pairs.items():
            if not _is_mappable(advertised, reached):
                raise InvalidOption(
                    f"{option} can't map {_shown(advertised)} to {_shown(reached)}; map a host to "
                    "a host, and host:port (1 to 65535) to host:port",
                    field=option,
                )
        return tuple(sorted(pairs.items()))

    def exactly_one(self, *options: str) -> None:
        """Check that exactly one of some options is given."""
        found = [option for option in options if option in self]
        if not found:
            raise InvalidOption(
                f"nothing to read is given: give one of {', '.join(options)}", field=options[0]
            )
        if len(found) > 1:
            raise InvalidOption(
                f"{' and '.join(found)} are both given; give only one",
                field=found[1],
            )

    def need(self, option: str, other: str) -> None:
        """Check that an option is given together with one that it needs."""
        if option in self and other not in self:
            raise InvalidOption(f"{option} is given without {other}, which it needs", field=option)

    def need_each_other(self, one: str, other: str) -> None:
        """Check that both options are given, or neither."""
        self.need(one, other)
        self.need(other, one)


def _is_mappable(advertised: str, reached: str) -> bool:
    """Return whether an advertised address can be mapped to another: host to host, or both ports.

    An IPv6 address without brackets may be with or without a port.
    """
    host, colon, port = advertised.rpartition(":")
    with_port = bool(colon) and port.isdecimal()
    either = with_port and ":" in host and not host.endswith("]")
    if with_port and _is_address(reached):
        return True
    return bool(advertised) and (either or not with_port) and _is_address(f"{reached}:1")


def _is_address(text: str) -> bool:
    try:
        return Address.parse(text).port > 0
    except InvalidInput:
        return False


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")
