import pytest

from orbitmq.message import flags
from orbitmq.message.record_view import RecordView
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.index.record_keys import has_key, hashes_of, is_keyed
from orbitmq.store.layout import key_hash
from tests.store.small_logs import record

TEXT = b"TAGS\x01paid\x02KEYS\x01o-41 o-42\x02UNIQ_KEY\x01U1\x02"


def view_of(text: bytes, sys_flag: int = 0) -> RecordView:
    data = bytearray(record(0, 0, properties=text))
    data[36:40] = sys_flag.to_bytes(4)
    return RecordView(memoryview(data), 0, len(data))


@pytest.mark.parametrize(
    ("topic", "key", "kind", "found"),
    [
        ("orders", "o-41", KeyKind.KEY, True),
        ("orders", "o-42", KeyKind.KEY, True),
        ("orders", "U1", KeyKind.KEY, True),
        ("orders", "paid", KeyKind.TAGS, True),
        ("orders", "o-41 o-42", KeyKind.KEY, False),
        ("orders", "paid", KeyKind.KEY, False),
        ("orders", "o-41", KeyKind.TAGS, False),
        ("orders", "", KeyKind.KEY, False),
        ("bills", "o-41", KeyKind.KEY, False),
    ],
)
def test_a_record_has_its_unique_key_its_keys_and_its_tags(
    topic: str, key: str, kind: KeyKind, found: bool
) -> None:
    assert has_key(view_of(TEXT), topic, key, kind) is found


def test_the_hashes_are_those_of_the_index() -> None:
    texts = ["orders#o-41", "orders#o-42", "orders#U1", "orders#T#paid"]
    assert hashes_of(view_of(TEXT)) == {key_hash(text) for text in texts}
    assert hashes_of(view_of(b"")) == frozenset()


@pytest.mark.parametrize(
    ("text", "sys_flag", "keyed"),
    [
        (b"KEYS\x01o-41\x02", 0, True),
        (b"UNIQ_KEY\x01U1\x02", 0, True),
        (b"TAGS\x01paid\x02", 0, False),
        (b"KEYS\x01 \x02", 0, False),
        (b"", 0, False),
        (TEXT, flags.TRANSACTION_PREPARED, True),
        (TEXT, flags.TRANSACTION_COMMIT, True),
        (TEXT, flags.TRANSACTION_ROLLBACK, False),
    ],
)
def test_which_records_every_index_has(text: bytes, sys_flag: int, keyed: bool) -> None:
    assert is_keyed(view_of(text, sys_flag)) is keyed
