"""Each blocking class has the names and the arguments of the async one that it wraps."""

import inspect
from collections.abc import Callable

import pytest

from orbitmq import blocking
from orbitmq.client.admin import admin
from orbitmq.client.consumer import push
from orbitmq.client.producer import producer
from orbitmq.client.producer import transactions as transaction
from orbitmq.client.producer.outbox import outbox


def public(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("face", "inner", "more", "fewer"),
    [
        (blocking.Producer, producer.Producer, {"send_later", "settings", "client_settings"}, {}),
        (blocking.Consumer, push.Consumer, {"settings", "client_settings"}, {}),
        (blocking.Transaction, transaction.Transaction, {}, {}),
        (blocking.Admin, admin.Admin, {"client_settings"}, {}),
        (
            *(blocking.Outbox, outbox.Outbox, {"sent"}),
            {"open", "holds", "keep", "stop", "close"},  # are the producer's to call
        ),
    ],
)
def test_every_public_name_has_its_twin_with_the_same_arguments(
    face: type, inner: type, more: set[str], fewer: set[str]
) -> None:
    mine, theirs = public(face), public(inner)
    assert mine.keys() - theirs.keys() == set(more)
    assert theirs.keys() - mine.keys() == set(fewer)
    for name in mine.keys() & theirs.keys():
        twin, method = mine[name], theirs[name]
        assert isinstance(twin, property) == isinstance(method, property), name
        if callable(twin) and callable(method):
            assert parameters(twin) == parameters(method), name
            assert not inspect.iscoroutinefunction(twin), name


def parameters(function: Callable[..., object]) -> list[tuple[object, ...]]:
    given = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in given]


def test_a_producer_is_made_of_the_same_arguments_and_sends_later_with_those_of_a_send() -> None:
    assert parameters(blocking.Producer) == parameters(producer.Producer)
    assert parameters(blocking.Producer.send_later) == parameters(producer.Producer.send)
    assert parameters(blocking.Consumer) == parameters(push.Consumer)
    assert parameters(blocking.Admin) == parameters(admin.Admin)
