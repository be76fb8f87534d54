"""The table of Java's keys has every key of the real classes, and no other."""

import pytest

from orbitmq.java_keys import BROKER_CLASSES, NAMESERVER_CLASSES, TABLE
from tests.interop.java import Java
from tests.interop.operations import CONFIG_KEYS, TLS_KEYS

CLASSES = sorted({*BROKER_CLASSES, *NAMESERVER_CLASSES} - {"Tls", "Folklore"})


def in_table(java_class: str) -> set[str]:
    return {key for key, row in TABLE if row.java_class == java_class}


@pytest.mark.parametrize("java_class", CLASSES)
def test_the_table_has_every_key_of_a_class(java_540: Java, java_class: str) -> None:
    (keys,) = java_540.ask(CONFIG_KEYS, [java_class])
    assert in_table(java_class) == set(keys)


def test_keys_that_java_ignores_are_in_no_class(java_540: Java) -> None:
    known = {key for keys in java_540.ask(CONFIG_KEYS, CLASSES) for key in keys}
    assert not in_table("Folklore") & known


def test_the_table_has_every_key_of_tls(java_540: Java) -> None:
    (keys,) = java_540.ask(TLS_KEYS, [None])
    assert in_table("Tls") == set(keys)
