from orbitmq.broker.clients.members import Members
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel
from tests.broker.fake_clients import Client, consumer, joined, tags


def test_the_first_heartbeat_of_a_consumer_makes_its_group_rebalance() -> None:
    members, client = Members(), Client()
    data = consumer("billing", tags("orders"))
    assert members.join_consumers(data, client.member())
    assert not members.join_consumers(data, client.member())
    assert members.join_consumers(data, Client("client-2").member())
    group = members.consumers("billing")
    assert group is not None
    assert group.client_ids() == ["client-1", "client-2"]
    assert (group.consume_type, group.message_model) == (
        ConsumeType.CONSUME_PASSIVELY,
        MessageModel.CLUSTERING,
    )


def test_topics_that_come_and_go_make_it_rebalance_too() -> None:
    members, client = Members(), Client()
    joined(members, "billing", "orders", client=client)
    more = consumer("billing", tags("orders"), tags("bills"))
    assert members.join_consumers(more, client.member())
    assert members.subscription("billing", "bills") == tags("bills")
    assert members.join_consumers(consumer("billing", tags("bills")), client.member())
    assert members.subscription("billing", "orders") is None


def test_other_tags_are_no_reason_to_rebalance() -> None:
    members, client = Members(), Client()
    joined(members, "billing", "orders", client=client)
    paid = tags("orders", "paid", 7, version=2)
    assert not members.join_consumers(consumer("billing", paid), client.member())
    assert members.subscription("billing", "orders") == paid


def test_the_younger_of_two_subscriptions_holds() -> None:
    members = Members()
    young, old = tags("orders", "paid", 7, version=5), tags("orders", "late", 8, version=4)
    members.join_consumers(consumer("billing", young), Client("a").member())
    members.join_consumers(consumer("billing", old), Client("b").member())
    assert members.subscription("billing", "orders") == young


def test_a_heartbeat_without_subscriptions_leaves_them_as_they_are() -> None:
    members = Members()
    joined(members, "billing", "orders")
    newcomer = Client("client-2").member()
    assert members.join_consumers(consumer("billing"), newcomer, with_subscriptions=False)
    assert members.subscription("billing", "orders") == tags("orders")


def test_the_last_member_that_leaves_removes_the_group() -> None:
    members = Members()
    first = joined(members, "billing", "orders")
    second = joined(members, "billing", "orders", client=Client("client-2"))
    assert members.leave_consumers("billing", first.connection)
    assert not members.leave_consumers("billing", first.connection)
    assert members.consumer("billing", "client-1") is None
    assert members.consumer("billing", "client-2") is not None
    assert members.leave_consumers("billing", second.connection)
    assert members.consumers("billing") is None
    assert not members.leave_consumers("billing", second.connection)


def test_a_lost_connection_leaves_every_group() -> None:
    members, client = Members(), Client()
    for group in ("billing", "audit"):
        joined(members, group, "orders", client=client)
    joined(members, "other", "orders", client=Client("client-2"))
    members.join_producers("shop", client.member())
    assert members.drop(client.connection) == ["billing", "audit"]
    assert members.producer_groups() == []
    assert members.groups_of("orders") == ["other"]


def test_producers_are_known_by_group() -> None:
    members, one, other = Members(), Client("a"), Client("b")
    for client in (one, other, one):
        members.join_producers("shop", client.member())
    assert [member.client_id for member in members.producers("shop")] == ["a", "b"]
    members.leave_producers("shop", one.connection)
    members.leave_producers("nobody", one.connection)
    assert [member.client_id for member in members.producers("shop")] == ["b"]
    assert members.producers("nobody") == []


def test_a_producer_is_found_by_its_client_id_while_it_is_in_a_group() -> None:
    members, old, new = Members(), Client("a"), Client("a")
    for group in ("shop", "audit", "shop"):
        members.join_producers(group, old.member())
    assert members.producer("a") is old.connection
    members.join_producers("shop", new.member())  # it has connected again
    assert members.producer("a") is new.connection
    members.drop(new.connection)
    assert members.producer("a") is old.connection
    members.leave_producers("shop", old.connection)
    assert members.producer("a") is old.connection
    members.leave_producers("audit", old.connection)
    assert members.producer("a") is None


def test_a_connection_that_changes_its_client_id_is_found_by_the_new_one() -> None:
    members, client = Members(), Client("a")
    members.join_producers("shop", client.member())
    client.client_id = "b"
    members.join_producers("shop", client.member())
    assert (members.producer("a"), members.producer("b")) == (None, client.connection)


def test_groups_are_found_by_what_they_subscribe_to() -> None:
    members = Members()
    joined(members, "billing", "orders", "bills")
    joined(members, "audit", "orders")
    assert members.groups_of("orders") == ["audit", "billing"]
    assert members.groups_of("bills") == ["billing"]
    assert members.subscription("nobody", "orders") is None


def test_a_silent_client_is_returned_once() -> None:
    members, silent, lively = Members(), Client("silent"), Client("lively")
    data = consumer("billing", tags("orders"))
    members.join_consumers(data, silent.member(seen_ms=10))
    members.join_producers("shop", silent.member(seen_ms=10))
    members.join_consumers(data, lively.member(seen_ms=10))
    members.join_consumers(data, lively.member(seen_ms=20))
    assert members.silent(10) == []
    assert members.silent(11) == [silent.connection]


def test_a_fingerprint_that_changes_asks_for_subscriptions() -> None:
    members = Members()
    assert not members.fingerprint_changed("billing", 5)
    joined(members, "billing", "orders")
    assert not members.fingerprint_changed("billing", 5, with_subscriptions=False)
    assert members.fingerprint_changed("billing", 6, with_subscriptions=False)
    assert not members.fingerprint_changed("billing", 6)


def test_a_broker_without_subscriptions_asks_for_them() -> None:
    members, client = Members(), Client()
    assert members.fingerprint_changed("billing", 5, with_subscriptions=False)
    members.join_consumers(consumer("billing"), client.member(), with_subscriptions=False)
    assert members.fingerprint_changed("billing", 5, with_subscriptions=False)
    assert not members.fingerprint_changed("billing", 5, with_subscriptions=True)


def test_a_fingerprint_goes_with_the_group() -> None:
    members = Members()
    client = joined(members, "billing", "orders")
    members.fingerprint_changed("billing", 5)
    members.drop(client.connection)
    assert not members.fingerprint_changed("billing", 6)
