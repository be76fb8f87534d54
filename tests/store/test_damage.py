import logging

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.damage import Damage, raise_damage


def test_damage_says_where_what_and_how_much() -> None:
    assert str(Damage(7, "is empty", 20, where="consumequeue/orders/0")) == (
        "consumequeue/orders/0 at byte 7: is empty (20 bytes skipped)"
    )
    assert str(Damage(7, "is empty", 0)) == "commitlog at byte 7: is empty"


def test_damage_is_raised_with_its_place() -> None:
    with pytest.raises(StoreDamaged, match="is empty") as caught:
        raise_damage(Damage(7, "is empty", 20, where="index/2026"))
    assert (caught.value.path, caught.value.position) == ("index/2026", 7)


def test_what_is_harmless_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    raise_damage(Damage(7, "stale", 20, harmless=True))
    assert caplog.record_tuples == [
        ("orbitmq.store", logging.WARNING, "commitlog at byte 7: stale (20 bytes skipped)")
    ]
