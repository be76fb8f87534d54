"""Which floor of a room may import which: inside a room, too, imports point one way.

A module that lies directly in a room with floors, or is named there, belongs to its ground, which
the whole room may import, or to its roof, which may import the whole room and is imported by
nothing in it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.architecture.sources import PACKAGE, Module

FOLDER_MODULES_MAX = 16
"""More than these side by side, and nobody finds one by its name."""


@dataclass(frozen=True)
class Room:
    """The floors of one room.

    Attributes:
        ground: modules that every floor may import; they import each other alone.
        floors: folder → the other folders of the room that it may import. A folder within another
            is a floor of its own; the longest name that fits a module counts.
        roof: modules that may import the whole room; only other roof modules import them.

    """

    ground: frozenset[str]
    floors: Mapping[str, frozenset[str]]
    roof: frozenset[str] = frozenset()


def _floors(text: str) -> Mapping[str, frozenset[str]]:
    """Read lines of ``floor: what it may import``."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    return {name.strip(): frozenset(below.split()) for name, _, below in lines}


FLOORS: Mapping[str, Room] = {
    "client": Room(
        ground=frozenset({"settings", "field_types", "options", "arguments", "user_code"})
        | {"life", "unclosed", "run"}
        | {"consumer.settings", "consumer.subscriptions", "consumer.names"},
        floors=_floors(
            """
            core:
            observe:
            producer.health: core
            producer.sending: core observe producer.health
            producer.outbox: core observe producer.health producer.sending
            producer: core observe producer.health producer.sending producer.outbox
            consumer.assignment: core
            consumer.offsets: core
            consumer.fetching: core observe consumer.offsets
            consumer.delivery: core observe consumer.fetching consumer.offsets producer.sending \
                producer.health
            consumer.polling: core observe consumer.fetching consumer.offsets
            consumer: core observe consumer.assignment consumer.offsets consumer.fetching \
                consumer.delivery consumer.polling producer.sending producer.health
            admin: core observe producer.health producer.sending
            """
        ),
    ),
    "store": Room(
        ground=frozenset({"settings", "layout", "damage", "dispatch", "progress", "store_time"}),
        floors=_floors(
            """
            disk:
            log: disk
            queues: disk
            index: disk
            checkpoint: disk log queues index
            recovery: disk log queues index checkpoint
            serving: disk log queues index checkpoint
            cleaning: disk log queues index checkpoint
            reader: disk log queues index
            timers: disk queues recovery
            rebuild: disk log queues index checkpoint recovery reader
            """
        ),
        # config_files: small files beside the store, for the broker
        roof=frozenset({"message_store", "parts", "config_files"}),
    ),
    "spark": Room(
        ground=frozenset({"schema", "offsets", "offset_json", "extra"}),
        floors=_floors(
            """
            options:
            cluster: options
            pulling: options cluster
            columns: options cluster pulling
            reading: options cluster pulling columns
            streaming: options cluster pulling columns reading
            locations:
            writing: options cluster locations
            store_source: options pulling columns reading streaming
            jobs: options cluster pulling columns reading streaming writing store_source \
                locations
            """
        ),
        roof=frozenset({"source", "sessions", "java", "pruning"}),
    ),
    "broker": Room(
        ground=frozenset({"settings", "machine", "remarks", "persistence", "registration"})
        | {"periodic_jobs", "routes", "durability", "leadership"},
        floors=_floors(
            """
            tables:
            clients: tables
            figures: tables
            sending: tables clients figures
            pulling.sql92:
            pulling: tables clients figures pulling.sql92
            reports: tables clients figures sending pulling
            handlers.client: tables clients figures sending pulling reports
            handlers.operator: tables clients figures sending pulling reports
            """
        ),
        roof=frozenset({"state", "wiring", "server", "replicas", "elected"}),
    ),
    "cli": Room(
        ground=frozenset(
            {"render", "lines", "cluster", "times", "asking", "problems"}
            | {"environment", "missing"}
        ),
        # commands: a family such as `topic` has the commands of operators in it
        floors=_floors(
            "servers: operating\noperating:\ndoctor:\ncommands: operating\npipeline:\nbench:"
        ),
        roof=frozenset({"main"}),
    ),
}


def faults(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each import between floors that the table doesn't allow."""
    for module in modules:
        room = FLOORS.get(module.room)
        if room is None or module.name == f"{PACKAGE}.{module.room}":
            continue
        own = _floor(room, _inside(module.room, module.name))
        if own is None and not module.is_package:
            yield f"{module.path}: lies on no floor of {module.room}"
            continue
        for touch in module.imports:
            target = _inside(module.room, touch.name)
            other = target and _floor(room, target)
            if own and other and not _may_import(room, own, other):
                yield f"{module.path}:{touch.line}: {own} may not import {target}, of {other}"


def crowds(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each folder with too many modules."""
    counts = Counter(module.path.rpartition("/")[0] for module in modules if not module.is_package)
    for folder, count in counts.items():
        if count > FOLDER_MODULES_MAX:
            yield f"{folder}: {count} modules, {FOLDER_MODULES_MAX} allowed; give it floors"


def _inside(room: str, name: str) -> str:
    """Return what of a dotted name lies below a room; empty if it lies elsewhere."""
    prefix = f"{PACKAGE}.{room}."
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def _floor(room: Room, target: str) -> str | None:
    if any(_lies_in(target, name) for name in room.ground):
        return "the ground"
    if any(_lies_in(target, name) for name in room.roof):
        return "the roof"
    fitting = (name for name in room.floors if _lies_in(target, name))
    return max(fitting, key=len, default=None)


def _lies_in(target: str, name: str) -> bool:
    return f"{target}.".startswith(f"{name}.")


def _may_import(room: Room, own: str, other: str) -> bool:
    if own == other or own == "the roof":
        return True
    if other == "the roof":
        return False
    return other == "the ground" or (own != "the ground" and other in room.floors[own])
