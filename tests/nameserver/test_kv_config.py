"""Texts by namespace and key."""

import pytest

from orbitmq.errors import InvalidBody
from orbitmq.nameserver import kv_config
from orbitmq.nameserver.kv_config import KVConfig
from orbitmq.net.refusal import Refusal


def test_keys_are_put_read_and_deleted() -> None:
    config = KVConfig()
    assert (config.get("orders", "key"), config.namespace("orders")) == (None, None)
    config.put("orders", "key", "1")
    config.put("orders", "key", "2")
    assert (config.get("orders", "key"), config.namespace("orders")) == ("2", {"key": "2"})
    config.delete("orders", "key")
    assert (config.get("orders", "key"), config.namespace("orders")) == (None, {})
    assert config.version == 3


def test_what_changes_nothing_is_no_change() -> None:
    config = KVConfig()
    config.delete("absent", "key")
    assert config.version == 0


def test_the_file_of_java_is_read_and_written() -> None:
    text = '{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"},"empty":{}}}'
    config = KVConfig()
    config.load_json(text.encode())
    assert config.get("ORDER_TOPIC_CONFIG", "orders") == "broker-a:4"
    assert config.to_json() == text


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidBody):
        KVConfig().load_json(b'{"configTable":')


def test_the_bound_counts_what_is_there_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "_CHARACTERS_MAX", 10)
    config = KVConfig()
    config.load_json(b'{"configTable":{"n":{"k":"12345"}}}')
    config.put("n", "k", "12345678")
    with pytest.raises(Refusal, match="2 characters in addition to 10 exceed the limit"):
        config.put("n", "l", "")
    config.put("n", "k", "")
    config.delete("n", "k")
    config.put("n", "l", "12345678")
    assert repr(config) == "<KVConfig 1 keys, version 4>"
