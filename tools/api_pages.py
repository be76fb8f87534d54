"""The API reference, ``docs/api/``: one page for each subject, made from the docstrings."""

import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from tools.docstrings import as_markdown
from tools.signatures import about_fields, fields_of, returns_of, signature_of

__all__ = ["pages"]


class _Page(NamedTuple):
    title: str
    about: str
    names: tuple[str, ...]


_PAGES: Final = {
    "producer": _Page(
        "Producer",
        "What [the producer](../producer.md) offers. Options are in [settings](../settings.md), "
        "errors in [errors](../errors.md).",
        (
            *("orbitmq.Producer", "orbitmq.client.producer.transactions.Transaction"),
            *("orbitmq.TransactionListener", "orbitmq.TransactionState"),
            *("orbitmq.by_hash", "orbitmq.by_sharding_key", "orbitmq.by_random"),
            *("orbitmq.by_machine_room", "orbitmq.ConsistentHash", "orbitmq.delay_level"),
            *("orbitmq.SendHook", "orbitmq.SendContext", "orbitmq.ReceiptLog"),
        ),
    ),
    "consumer": _Page(
        "Consumers",
        "What [the consumers](../consumer.md) offer.",
        (
            *("orbitmq.Consumer", "orbitmq.run", "orbitmq.RetryLater", "orbitmq.Sql"),
            *("orbitmq.PullConsumer", "orbitmq.Deduplicator"),
            *("orbitmq.ConsumeHook", "orbitmq.ConsumeContext"),
        ),
    ),
    "message": _Page(
        "Messages",
        "What is sent, stored and acknowledged.",
        (
            *("orbitmq.Message", "orbitmq.StoredMessage", "orbitmq.MessageQueue"),
            *("orbitmq.SendReceipt", "orbitmq.SendStatus"),
        ),
    ),
    "admin": _Page(
        "Admin",
        "The calls of [administration](../admin.md), and what they return.",
        (
            "orbitmq.Admin",
            *(
                f"orbitmq.client.admin.results.{name}"
                for name in ("BrokerStatus", "BrokerStats", "Cluster", "Broker", "GroupProgress")
            ),
            *(
                f"orbitmq.client.admin.results.{name}"
                for name in ("QueueProgress", "TopicStats", "QueueStats", "Rate")
            ),
            *("orbitmq.client.admin.dead_letters.DeadLetter",),
            *("orbitmq.client.admin.dead_letters.Redrive",),
        ),
    ),
    "blocking": _Page(
        "Without an event loop",
        "`orbitmq.blocking`: the same names, arguments, results and errors, without `await` "
        "([guide](../blocking.md)). Here is what is different; all else is as in "
        "[producer](producer.md), [consumers](consumer.md) and [admin](admin.md).",
        tuple(
            f"orbitmq.blocking.{name}"
            for name in ("Producer", "Consumer", "PullConsumer", "Admin", "Deduplicator")
        ),
    ),
    "embedded": _Page(
        "Embedded clusters",
        "A nameserver and brokers inside your own process.",
        tuple(
            f"orbitmq.embedded.{name}" for name in ("start", "EmbeddedCluster", "RunningCluster")
        ),
    ),
    "testing": _Page(
        "A broker under test",
        "What [the pytest fixtures](../testing.md) give a test, and `start` without pytest: an "
        "[embedded cluster](embedded.md) with time that a test moves, and faults that it orders.",
        tuple(f"orbitmq.testing.broker.{name}" for name in ("start", "BrokerUnderTest", "Fault")),
    ),
    "spark": _Page(
        "Spark",
        "`orbitmq.spark` and the jobs of [the pipeline](../pipeline.md). The options of the "
        "formats are in [Spark](../spark.md#options).",
        (
            *("orbitmq.spark.session", "orbitmq.spark.register"),
            *("orbitmq.spark.drop_duplicates", "orbitmq.spark.settling"),
            *(
                f"orbitmq.spark.jobs.{name}"
                for name in ("sources.Topics", "sources.Store", "sources.Span")
            ),
            *("orbitmq.spark.jobs.archive.archive", "orbitmq.spark.jobs.archive.watch"),
            *("orbitmq.spark.jobs.replay.replay", "orbitmq.spark.jobs.reconcile.reconcile"),
            *("orbitmq.spark.jobs.rebuild.rebuild", "orbitmq.spark.jobs.trace.trace"),
            "orbitmq.spark.jobs.dead_letters.dead_letters",
            *("orbitmq.spark.jobs.profile.profile", "orbitmq.spark.jobs.settle.settle"),
        ),
    ),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its path below ``docs/``."""
    return {f"api/{name}.md": _page(page) for name, page in _PAGES.items()}


def _page(page: _Page) -> str:
    parts = [f"# {page.title}", page.about, "Written from the docstrings by `make reference`."]
    for name in page.names:
        parts += _thing(name, _found(name))
    return "\n\n".join(parts) + "\n"


def _found(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def _thing(full_name: str, thing: Any) -> Iterator[str]:
    name = full_name.rpartition(".")[2]
    yield f"## {name}"
    if not full_name.startswith(f"orbitmq.{name}"):
        yield f"In `{full_name.rpartition('.')[0]}`."
    if inspect.isfunction(thing):
        yield f"```py\n{signature_of(name, thing)}\n```"
        yield as_markdown(thing.__doc__ or "")
        return
    if head := _made_by(thing):
        yield f"```py\n{head}\n```"
    yield as_markdown(thing.__doc__ or "")
    if issubclass(thing, msgspec.Struct) and (fields := about_fields(thing)):
        yield as_markdown("\n".join(f"- ``{name}``: {said}" for name, said in fields.items()))
    if issubclass(thing, Enum):
        yield "\n".join(f"- `{member.name}`" for member in thing)
    for member_name, member in _members(thing):
        yield from _member(name, member_name, member)


def _made_by(kind: type[Any]) -> str:
    if issubclass(kind, msgspec.Struct):
        return fields_of(kind)
    if issubclass(kind, Enum) or not inspect.isfunction(kind.__init__):
        return ""
    return signature_of(kind.__name__, kind.__init__)


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties, in the order in which they are written."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("orbitmq"):
            continue
        for name, member in vars(owner).items():
            is_ours = inspect.isfunction(member) or isinstance(member, property | classmethod)
            if not name.startswith("_") and is_ours and name not in seen:
                seen.add(name)
                yield name, member


def _member(owner: str, name: str, member: Any) -> Iterator[str]:
    function: Any = member.fget if isinstance(member, property) else member
    function = getattr(function, "__func__", function)
    if _only_waits(function):
        return
    yield f"### {owner}.{name}"
    if isinstance(member, property):
        yield f"A property: `{returns_of(function)}`."
    else:
        yield f"```py\n{signature_of(f'{owner}.{name}', function)}\n```"
    yield as_markdown(function.__doc__ or "")


def _only_waits(function: Any) -> bool:
    """Return whether a method of a blocking class only waits for the async one."""
    return hasattr(function, "__wrapped__")
