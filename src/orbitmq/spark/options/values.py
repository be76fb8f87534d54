"""The texts of options, read as what they stand for; an error names the option and shows little."""

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
    """What was said, by the names of options.

    >>> values = Values({"minPartitions": "8", "failOnDataLoss": "false"})
    >>> values.optional_number("minPartitions", high=100), values.flag("tls", default=False)
    (8, False)
    """

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = dict(said)

    def __contains__(self, option: object) -> bool:
        return option in self._said

    def text(self, option: str, default: str = "") -> str:
        """Return a text."""
        return self._said.get(option, default)

    def words(self, option: str) -> tuple[str, ...]:
        """Return the parts of a comma list, blanks around them cut; none of them is empty."""
        words = tuple(word.strip() for word in self.text(option).split(","))
        if "" in words:
            raise InvalidOption(
                f"{option} is {_shown(self.text(option))}; write names with a comma between",
                field=option,
            )
        return words

    def flag(self, option: str, *, default: bool) -> bool:
        """Return a truth value."""
        text = self.text(option, str(default)).lower()
        if text not in ("true", "false"):
            raise InvalidOption(f"{option} is {_shown(text)}, not true or false", field=option)
        return text == "true"

    def optional_number(self, option: str, *, high: int) -> int | None:
        """Return a number from 1 on, None without."""
        return self.number(option, 1, high=high) if option in self else None

    def number(self, option: str, default: int, *, low: int = 1, high: int) -> int:
        """Return a whole number in its range."""
        text = self.text(option, str(default))
        if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
            raise InvalidOption(
                f"{option} is {_shown(text)}; it must be a whole number from {low} to {high}",
                field=option,
            )
        return int(text)

    def duration_ms(self, option: str, default_ms: int) -> int:
        """Return a time such as ``15m``, ``30s`` or ``500ms``; a bare number is milliseconds."""
        text = self.text(option, f"{default_ms}ms").lower()
        found = _DURATION.fullmatch(text)
        unit_ms = _UNITS_MS.get(found[2] or "ms") if found else None
        if found is None or unit_ms is None or int(found[1]) * unit_ms > _DURATION_MAX_MS:
            raise InvalidOption(
                f"{option} is {_shown(text)}; write a time of at most a year, such as 15m, 30s or "
                "500ms",
                field=option,
            )
        return int(found[1]) * unit_ms

    def bound(
        self, end: Literal["starting", "ending"], *, default: Literal["earliest", "latest"]
    ) -> Bound:
        """Return where a read starts or ends, said by offsets or by a time."""
        offsets, timestamp = f"{end}Offsets", f"{end}Timestamp"
        if offsets in self and timestamp in self:
            raise InvalidOption(
                f"{offsets} and {timestamp} are both given; one of them says where", field=timestamp
            )
        if timestamp in self:
            return Bound("timestamp", timestamp_ms=self.moment_ms(timestamp))
        text = self.text(offsets, default)
        if text.startswith("{"):
            return Bound("offsets", parse_offsets(text, field=offsets))
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

    def moment_ms(self, option: str) -> int:
        """Return a time in milliseconds since 1970; it may be written by ISO 8601, with a zone."""
        text = self.text(option)
        if _NUMBER.fullmatch(text) and 0 <= int(text) <= _INT64_MAX:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None or moment.timestamp() < 0:
            raise InvalidOption(
                f"{option} is {_shown(text)}; write milliseconds since 1970, or a time with its "
                "zone, such as 2026-01-31T12:00:00Z",
                field=option,
            )
        return round(moment.timestamp() * 1000)

    def address_map(self, option: str) -> tuple[tuple[str, str], ...]:
        """Return pairs of addresses out of a JSON object of texts, in order."""
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
            if not _can_stand_for(advertised, reached):
                raise InvalidOption(
                    f"{option} says that {_shown(advertised)} is reached at {_shown(reached)}; "
                    "write a host for a host, and host:port (1 to 65535) for host:port",
                    field=option,
                )
        return tuple(sorted(pairs.items()))

    def exactly_one(self, *options: str) -> None:
        """Check that one of some options is given, and no more."""
        found = [option for option in options if option in self]
        if not found:
            raise InvalidOption(
                f"nothing says what to read: give one of {', '.join(options)}", field=options[0]
            )
        if len(found) > 1:
            raise InvalidOption(
                f"{' and '.join(found)} are both given; one of them says what to read",
                field=found[1],
            )

    def need(self, option: str, other: str) -> None:
        """Check that an option comes with the one it needs."""
        if option in self and other not in self:
            raise InvalidOption(f"{option} is given without {other}, which it needs", field=option)

    def need_each_other(self, one: str, other: str) -> None:
        """Check that both options are given, or none."""
        self.need(one, other)
        self.need(other, one)


def _can_stand_for(advertised: str, reached: str) -> bool:
    """Return whether what a broker advertises can be rewritten so: hosts keep their ports.

    An address of IPv6 without brackets may be meant with a port or without.
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
