"""The cost of a client, orbitmq's and Java's: ``python -m bench --only client whole``.

Both clients use Java's broker, so that only the client differs; for ``whole``, orbitmq's client
sends to orbitmq's broker. Java's clients keep their process, and are warmed up with all loads,
mixed.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from bench.consumers import Consume, Consumed, consume_ours, java_consumer, produce
from bench.measure import Child
from bench.parties import JAVA, OURS, both
from bench.rounds import Plan, Result, Round, WarmUp, alternate, settle, summed_up
from bench.senders import TOPIC, JavaSender, Load, Spent, java_sender, send_ours
from orbitmq.blocking import Admin
from orbitmq.clock import pause
from orbitmq.errors import NoRoute

__all__ = ["loads_of", "measured"]

WHOLE: Final = "client.64"
"""The load of the client that the whole is measured with too."""
QUEUES: Final = 8
REGISTER_TRIES: Final = 400
REGISTER_PAUSE_MS: Final = 100
PER_SECOND: Final = 1_000
SKIPPED_S: Final = 1
_TOPIC: Final = "bench-consume"
_topics: Final = count(1)


def loads_of(messages: int) -> dict[str, Load]:
    """Return the load of each row, about as long as ``messages`` sends with 64 in flight."""
    tasks = partial(Load, together=1, gathered=False, threads=False, messages=messages)
    many = 4 * messages  # a batch takes less time
    return {
        "client.1": tasks(1, threads=True, messages=messages // 8),
        "client.64": tasks(64),
        "client.1024": tasks(1_024),
        "client.batches": tasks(4, together=16, messages=many // 16 * 16),
        "client.gathered": tasks(1_024, gathered=True, messages=many),
        "client.threads": tasks(16, threads=True, blocking=True, messages=messages // 2),
    }


def measured(directory: Path, plan: Plan) -> Iterator[Result | WarmUp]:
    """Measure producers, the whole, and consumers."""
    with both(directory) as parties, Child() as child:
        nameservers = {name: str(party.nameserver) for name, party in parties.items()}
        for nameserver in nameservers.values():
            _create(nameserver, TOPIC)
        with java_sender(directory / "sender") as java:
            yield from _producers(nameservers, java, child, plan)
        with java_consumer(directory / "consumer") as consumer:
            yield from _consumers(nameservers[JAVA], consumer.consume, plan)


# Producers


def _producers(
    nameservers: Mapping[str, str], java: JavaSender, child: Child, plan: Plan
) -> Iterator[Result | WarmUp]:
    loads = loads_of(plan.messages)

    def by_java(load: Load) -> Round:
        return _round(java.send(nameservers[JAVA], load))

    def by_ours(load: Load, broker: str = JAVA) -> Round:
        return _round(child.run(send_ours, nameservers[broker], load))

    least = plan.warm_messages // (plan.messages * len(loads)) + 1
    yield settle("Java client", lambda: sum(by_java(one).cost for one in loads.values()), least)
    sides = {row: (partial(by_ours, load), partial(by_java, load)) for row, load in loads.items()}
    for row, found in alternate(sides, plan.rounds).items():
        yield summed_up(row, *found)
    whole = partial(by_ours, loads[WHOLE], OURS), partial(by_java, loads[WHOLE])
    whole[0]()  # our broker is new
    ((ours, theirs),) = alternate({WHOLE: whole}, plan.rounds).values()
    yield summed_up("whole.64", _rates(ours), _rates(theirs))


def _round(spent: Spent) -> Round:
    return Round(spent.cpu_us, spent.per_second)


def _rates(rounds: list[Round]) -> list[Round]:
    return [Round(one.per_second or 0, one.per_second) for one in rounds]


# Consumers


def _consumers(nameserver: str, java: Consume, plan: Plan) -> Iterator[Result | WarmUp]:
    _create(nameserver, _TOPIC)
    produce(nameserver, _TOPIC, plan.backlog)

    def drain(consume: Consume) -> Round:
        found = consume(nameserver, _TOPIC, plan.backlog, 0, lambda: None)
        return Round(found.cpu_us, found.per_second)

    least = plan.warm_messages // 2 // plan.backlog
    yield settle("Java consumer", lambda: drain(java).cost, max(2, least))
    drains = {"client.consumer": (partial(drain, consume_ours), partial(drain, java))}
    for row, found in alternate(drains, plan.later_rounds).items():
        yield summed_up(row, *found)

    def handle(consume: Consume) -> Consumed:
        return _handled(nameserver, consume, plan.handler_s)

    handles = {"steady": (partial(handle, consume_ours), partial(handle, java))}
    ((ours, theirs),) = alternate(handles, plan.handler_rounds).values()
    for figure in ("p50", "p99"):
        rounds = ([Round(getattr(one, f"{figure}_ms")) for one in side] for side in (ours, theirs))
        yield summed_up(f"latency.handler-{figure}", *rounds)


def _handled(nameserver: str, consume: Consume, seconds: float) -> Consumed:
    """Return the times from the send to the handler, of messages at a steady rate."""
    topic, messages = f"{_TOPIC}-{next(_topics)}", int(PER_SECOND * seconds)
    _create(nameserver, topic)
    with ThreadPoolExecutor(1) as sender:

        def send() -> None:
            sender.submit(produce, nameserver, topic, messages, PER_SECOND)

        return consume(nameserver, topic, messages, PER_SECOND * SKIPPED_S, send)


def _create(nameserver: str, topic: str) -> None:
    """Create a topic, as soon as the broker is registered."""
    with Admin(nameserver=nameserver) as admin:
        for left in reversed(range(REGISTER_TRIES)):
            try:
                admin.create_topic(topic, queues=QUEUES)
                return
            except NoRoute:
                if not left:
                    raise
                pause(REGISTER_PAUSE_MS)
