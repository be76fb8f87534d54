import pytest

from orbitmq.store.layout import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, index_key, key_hash
from tests.store.golden import manifest


def test_sizes_add_up_to_javas_index_file() -> None:
    default = INDEX_HEADER.size + INDEX_SLOT.size * 5_000_000 + INDEX_ENTRY.size * 20_000_000
    assert default == 420_000_040
    listed = manifest("normal")
    slots, entries = listed["config"]["maxHashSlotNum"], listed["config"]["maxIndexNum"]
    golden = INDEX_HEADER.size + INDEX_SLOT.size * slots + INDEX_ENTRY.size * entries
    assert golden == listed["dump"]["indexFiles"][0]["length"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", 0), ("zzzzzz", 685785664)],
)
def test_hashes_have_no_sign(text: str, expected: int) -> None:
    assert key_hash(text) == expected


def test_keys_are_indexed_with_their_topic() -> None:
    assert index_key("%RETRY%group", "o 1") == "%RETRY%group#o 1"
