from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message import flags
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.layout import key_hash
from tests import kernels

WORDS = st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode))


def entry(
    offset: int = 640, sys_flag: int = 0, topic: str = "orders", **more: object
) -> Dispatched:
    given = {"unique_key": None, "keys": b"", "tags": None, **more}
    return Dispatched(topic, 0, 0, offset, 200, 1000 + offset, sys_flag, 0, **given)  # type: ignore[arg-type]


@st.composite
def entries(draw: st.DrawFn) -> list[Dispatched]:
    topics = [draw(st.text(st.characters(codec="utf-8"), max_size=5)) for _ in range(2)]
    return [
        entry(
            draw(st.integers(0, 2**62)),
            draw(st.integers(0, 15)),
            draw(st.sampled_from(topics)),
            unique_key=draw(st.none() | WORDS),
            keys=draw(WORDS),
            tags=draw(st.none() | WORDS),
        )
        for _ in range(draw(st.integers(0, 5)))
    ]


def test_keys_stand_in_the_order_unique_key_keys_tags(implementation: kernels.Functions) -> None:
    index_keys = implementation["index_keys"]
    found = index_keys([entry(unique_key=b"U1", keys=b"a  b ", tags=b"paid")], 0, True)
    texts = ["orders#U1", "orders#a", "orders#b", "orders#T#paid"]
    assert found == [(key_hash(text), 640, 1640) for text in texts]
    assert index_keys([entry(tags=b"paid")], 0, False) == []


def test_a_hash_counts_java_characters(implementation: kernels.Functions) -> None:
    index_keys = implementation["index_keys"]
    for text in ("déjà", "\U0001f600", "x" * 600, "ü" * 600, ""):
        found = index_keys([entry(unique_key=text.encode(), topic="t\U0001f600")], 0, True)
        assert found == [(key_hash(f"t\U0001f600#{text}"), 640, 1640)]


def test_what_is_indexed_or_rolled_back_is_left_out(implementation: kernels.Functions) -> None:
    index_keys = implementation["index_keys"]
    rolled_back = entry(700, flags.TRANSACTION_ROLLBACK, unique_key=b"U")
    given = [entry(639, unique_key=b"U"), entry(640, unique_key=b"U"), rolled_back]
    assert [offset for _, offset, _ in index_keys(given, 640, True)] == [640]
    assert index_keys(iter(given[:1]), 0, True) == index_keys(given[:1], 0, True)


@kernels.needs_kernel
@given(entries(), st.integers(0, 2**62), st.booleans())
def test_both_give_the_same_keys(given: list[Dispatched], to: int, tag_keys: bool) -> None:
    python, kernel = kernels.in_python()["index_keys"], kernels.in_kernel()["index_keys"]
    for indexed_to in (0, to):
        assert kernel(given, indexed_to, tag_keys) == python(given, indexed_to, tag_keys)
