import pytest

from orbitmq.errors import InvalidBody
from orbitmq.failover.consensus import Snapshot, StoredValue
from orbitmq.failover.group import Alive, GroupKeys, GroupState, GroupView, Registered, encode

KEYS = GroupKeys.of("/p", "shop", "orders")
STATE = GroupState(master=2, epoch=3, lease=9, in_sync=(1, 2))
ALIVE = Alive(lease=9, address="a:1", ha_address="a:2", log_epoch=3, log_end=77)


def snapshot(**values: bytes) -> Snapshot:
    stored = {
        KEYS.base + key.replace("_", "/"): StoredValue(value, number)
        for number, (key, value) in enumerate(values.items(), 5)
    }
    return Snapshot(20, stored)


def test_a_group_is_read_from_its_keys() -> None:
    view = GroupView.of(
        KEYS,
        snapshot(
            state=encode(STATE),
            brokers_10=encode(Registered(check_code="x")),
            brokers_2=encode(Registered(check_code="y", address="a:1")),
            alive_2=encode(ALIVE),
        ),
    )
    assert view.state == STATE
    assert view.master == ALIVE
    assert list(view.registered) == [2, 10]
    assert view.next_id == 11
    assert view.expected([KEYS.state, KEYS.alive(2), KEYS.alive(1)]) == {
        "/p/shop/orders/state": 5,
        "/p/shop/orders/alive/2": 8,
        "/p/shop/orders/alive/1": 0,
    }


def test_another_process_with_the_master_s_id_is_not_the_master() -> None:
    other = encode(Alive(lease=10, address="a:1", ha_address="a:2", log_epoch=3, log_end=77))
    assert GroupView.of(KEYS, snapshot(state=encode(STATE), alive_2=other)).master is None
    assert GroupView.of(KEYS, snapshot(state=encode(STATE))).master is None


def test_a_new_group_has_nothing() -> None:
    view = GroupView.of(KEYS, Snapshot(7, {}))
    assert (view.state, view.state_revision, view.next_id) == (None, 0, 1)


def test_a_value_that_is_not_ours_is_named() -> None:
    with pytest.raises(InvalidBody, match="/p/shop/orders/state"):
        GroupView.of(KEYS, snapshot(state=b"{}"))
