"""Which room may import which: the arrows point one way, from the bytes to the faces."""

from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.sources import PACKAGE, Module, Touch

ANYTHING = frozenset({"*"})

# A room may import itself, EVERYBODY, and what stands here. A dotted entry opens only that part:
# Spark tasks may use `net.blocking`, and nothing else of net.
EVERYBODY: frozenset[str] = frozenset(
    {"errors", "settings", "checksum", "java_keys", "kernel", "version"}
)
_SEAMS = frozenset({"clock", "randomness", "threads"})
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    # what everything stands on
    "errors": frozenset(),
    "settings": frozenset(),
    "java_keys": frozenset(),
    "checksum": frozenset(),
    "kernel": frozenset(),
    "version": frozenset(),
    "clock": frozenset(),
    "logs": frozenset(),
    "randomness": frozenset(),
    "threads": frozenset(),
    # bytes: no I/O
    "message": frozenset(),
    "wire": frozenset({"message"}),
    # one machine
    "net": frozenset({"wire"}) | _SEAMS,
    "store": frozenset({"message", "clock", "threads"}),
    # several
    "client": frozenset({"net", "wire", "message"}) | _SEAMS,
    "nameserver": frozenset({"net", "wire", "clock", "threads", "logs"}),
    "replication": frozenset({"store", "net", "wire", "message.buffer", "clock"}),
    "failover": frozenset({"net", "wire", "clock", "randomness"}),
    "broker": frozenset({"store", "replication", "failover", "net", "wire", "message", "logs"})
    | _SEAMS,
    # faces
    "reports": frozenset(),
    "blocking": frozenset({"client", "message"}) | _SEAMS,
    "embedded": frozenset(
        {"nameserver.server", "nameserver.settings", "blocking", "message", "net.event_loop"}
        | {"broker.server", "broker.settings", "broker.machine"}
    )
    | _SEAMS,
    "spark": frozenset(
        {"message", "wire", "net.blocking", "blocking", "store.reader", "clock", "randomness"}
        | {"reports"}
        # Tasks of the job rebuild make queue and index files, as a broker of these settings does.
        | {"store.rebuild", "store.settings"}
        | {"threads"}  # a task makes messages while a thread waits for brokers
        # What a blocking connection is made with: an address, its numbers, a TLS context.
        | {"net.address", "net.settings", "net.transport.tls"}
    ),
    "dashboard": frozenset({"client.admin", "blocking", "store.reader", "message", "clock"}),
    "cli": frozenset(
        {"logs", "client.admin", "blocking", "store.reader", "message", "clock", "demo", "embedded"}
        | {"store.damage"}
        | {
            "nameserver.server",
            "nameserver.settings",
            "dashboard.app",
            "spark.extra",
            "spark.jobs",
            "spark.sessions",
        }
        | {"broker.server", "broker.settings", "broker.machine", "broker.elected"}
        | {"net.event_loop", "net.exposure", "net.address", "net.transport.own_host"}
        # Commands run on a loop of their own, so they use the asynchronous face; what an outbox
        # holds is shown without a producer.
        | {"client.producer", "client.consumer", "client.core", "client.settings"}
        | {"client.observe"}  # the history of a message, which an admin returns
    ),
    "demo": frozenset({"embedded", "blocking", "message", "wire", "client", "spark", "reports"})
    | _SEAMS,
    "__main__": frozenset({"cli"}),
    # the doors: `orbitmq` itself, and the packages that Spark finds by their names
    PACKAGE: frozenset({"message", "client", "blocking"}),
    "pyspark_rocketmq": frozenset({"spark"}),
    "pyspark_rocketmq_store": frozenset({"spark"}),
    # the pytest plugin
    "pytest_orbitmq": frozenset({"testing"}),
    # stand-ins for all of them; imported by tests and bench alone
    "testing": ANYTHING,
}

# Doors inside a room: parts that even its own modules may not import, and why.
WITHIN: Mapping[str, str] = {
    "broker.server": "it wires all of the broker together, so nothing in the room may need it",
}
# But for these: they are outside of the part.
OUTSIDE: frozenset[str] = frozenset({"broker.elected"})  # begins a broker for each of its roles
# The other way round: what is closed although the room it lies in is open, but for the parts
# that the table above names.
CLOSED: Mapping[str, frozenset[str]] = {
    "net": frozenset({"wire.headers", "wire.bodies"}),  # it carries frames, whatever they mean
}
# Types that a room may name and not import: an error says what it carries, and stands on nothing.
FOR_TYPES: Mapping[str, frozenset[str]] = {
    "errors": frozenset({"message.model"}),
    # what an admin returns
    "cli": frozenset(
        {"wire.bodies.route", "wire.bodies.topic", "wire.bodies.group", "wire.bodies.running"}
    ),
}


def faults(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each import that the table doesn't allow, and for each unknown room."""
    for module in modules:
        if module.room not in MAY_IMPORT:
            yield f"{module.path}: the room {module.room!r} isn't in the table of rooms"
            continue
        for touch in module.imports:
            if fault := _fault(module, touch):
                yield f"{module.path}:{touch.line}: {fault}"


def _fault(module: Module, touch: Touch) -> str | None:
    if touch.name.startswith("."):
        return f"relative import of {touch.name}; write it out from {PACKAGE}"
    first, _, target = touch.name.partition(".")
    if first != PACKAGE:
        return None
    room = target.partition(".")[0]
    if room not in MAY_IMPORT or room == PACKAGE:
        return None if module.room in ("testing", "demo") else f"{touch.name} goes through the door"
    if touch.is_for_types and _opens(FOR_TYPES.get(module.room, frozenset()), target):
        return None
    if reason := _closed(module, target):
        return reason
    if room == module.room or _opens(MAY_IMPORT[module.room] | EVERYBODY, target):
        return _private(module, target)
    return f"{module.room} may not import {target}"


def _closed(module: Module, target: str) -> str | None:
    for part, reason in WITHIN.items():
        is_inside = module.name.removeprefix(f"{PACKAGE}.") not in OUTSIDE
        if is_inside and part.startswith(f"{module.room}.") and _covers(part, target):
            return f"{part} may not be imported here: {reason}"
    named = frozenset(entry for entry in MAY_IMPORT[module.room] if "." in entry)
    if _opens(CLOSED.get(module.room, frozenset()), target) and not _opens(named, target):
        return f"{module.room} may not import {target}"
    return None


def _private(module: Module, target: str) -> str | None:
    if f"{PACKAGE}.{target}".startswith(f"{module.name}."):
        return None
    private = next((part for part in target.split(".") if part.startswith("_")), None)
    return f"{private} is private to {target.rpartition('.')[0]}" if private else None


def _opens(entries: frozenset[str], target: str) -> bool:
    return entries >= ANYTHING or any(_covers(entry, target) for entry in entries)


def _covers(entry: str, target: str) -> bool:
    return target == entry or target.startswith(f"{entry}.")
