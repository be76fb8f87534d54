"""What may survive a power loss, and what must."""

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.randomness import SeededRandomness
from orbitmq.testing.power_loss import PAGE, SECTOR, Contents, Folder, Node

SEEDS = range(200)


def synced(data: bytes) -> Contents:
    contents = Contents(now_ms=0)
    contents.write(data, 0, chance=None)
    contents.sync()
    return contents


# Bytes.


def test_only_what_was_synced_is_sure_to_survive() -> None:
    contents = synced(b"a" * 10)
    contents.write(b"b" * 10, 5, chance=None)
    assert bytes(contents.data) == b"a" * 5 + b"b" * 10
    assert bytes(contents.surviving(None).data) == b"a" * 10
    contents.sync()
    assert bytes(contents.surviving(None).data) == b"a" * 5 + b"b" * 10


def test_allocated_space_survives_a_sync() -> None:
    contents = synced(b"a")
    contents.grow(3 * PAGE)
    assert len(contents.surviving(None).data) == 1
    contents.sync()
    assert bytes(contents.surviving(None).data) == b"a" + bytes(3 * PAGE - 1)


def test_pages_survive_one_by_one() -> None:
    outcomes = set()
    for seed in SEEDS:
        contents = synced(bytes(3 * PAGE))
        contents.write(b"x" * 3 * PAGE, 0, chance=None)
        after = contents.surviving(SeededRandomness(seed)).data
        outcomes.add(tuple(after[page * PAGE] for page in range(3)))
    assert len(outcomes) == 8


def test_a_page_is_torn_between_sectors_only() -> None:
    torn = 0
    for seed in SEEDS:
        contents = synced(bytes(PAGE))
        contents.write(b"x" * PAGE, 0, chance=None)
        after = contents.surviving(SeededRandomness(seed)).data
        sectors = [bytes(after[at : at + SECTOR]) for at in range(0, PAGE, SECTOR)]
        assert {*sectors} <= {bytes(SECTOR), b"x" * SECTOR}
        torn += len({*sectors}) == 2
    assert torn > 10


def test_a_write_may_be_torn_anywhere_when_its_page_is_written_back_meanwhile() -> None:
    lengths = set()
    for seed in SEEDS:
        contents = synced(bytes(100))
        contents.write(b"x" * 100, 0, chance=SeededRandomness(seed))
        lengths.add(bytes(contents.surviving(None).data).count(b"x"))
    assert lengths & {*range(1, 100)}


def test_the_length_may_survive_without_the_bytes() -> None:
    found = set()
    for seed in SEEDS:
        contents = synced(b"a")
        contents.write(b"b" * 9, 1, chance=None)
        found.add(bytes(contents.surviving(SeededRandomness(seed)).data))
    assert {b"a", b"a" + b"b" * 9, b"a" + bytes(9)} <= found


def test_what_survived_one_crash_survives_the_next() -> None:
    for seed in SEEDS:
        contents = synced(b"a" * PAGE)
        contents.write(b"b" * 2 * PAGE, 100, chance=None)
        once = contents.surviving(SeededRandomness(seed))
        assert once.surviving(SeededRandomness(seed + 1)).data == once.data


def test_a_failed_sync_loses_the_pages_though_the_next_one_succeeds() -> None:
    contents = synced(b"old")
    contents.write(b"new", 0, chance=None)
    contents.fail_sync()
    contents.sync()
    assert bytes(contents.data) == b"new"
    assert {bytes(contents.surviving(SeededRandomness(seed)).data) for seed in SEEDS} == {b"old"}


@given(
    before=st.binary(max_size=3 * SECTOR),
    writes=st.lists(st.tuples(st.integers(0, 2 * PAGE), st.binary(min_size=1, max_size=2000))),
    seed=st.integers(0, 2**32),
)
def test_a_synced_byte_never_goes_back_and_no_byte_is_invented(
    before: bytes, writes: list[tuple[int, bytes]], seed: int
) -> None:
    chance = SeededRandomness(seed)
    contents = synced(before)
    legal = [{byte} for byte in before]
    for offset, data in writes:
        contents.write(data, offset, chance=chance)
        legal += [{0} for _ in range(offset + len(data) - len(legal))]
        for at, byte in enumerate(data, offset):
            legal[at].add(byte)
    after = contents.surviving(chance).data
    assert len(before) <= len(after) <= len(contents.data)
    assert all(byte in legal[at] for at, byte in enumerate(after))


# Names.


def survivors(folder: Folder, seed: int | None = None) -> dict[str, Node]:
    return folder.surviving(None if seed is None else SeededRandomness(seed), {}).names


def outcomes(folder: Folder) -> set[tuple[str, ...]]:
    return {tuple(survivors(folder, seed)) for seed in SEEDS}


def test_a_name_is_lost_with_its_bytes_however_well_these_were_synced() -> None:
    folder = Folder()
    folder.change({"f": synced(b"a")})
    assert survivors(folder) == {}
    folder.sync()
    assert [*survivors(folder)] == ["f"]


def test_changes_survive_in_order() -> None:
    folder = Folder()
    for name in "abc":
        folder.change({name: synced(b"")})
    assert outcomes(folder) == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_a_rename_is_one_step() -> None:
    folder, contents = Folder(), synced(b"a")
    folder.change({"old": contents})
    folder.sync()
    folder.change({"old": None, "new": contents})
    assert outcomes(folder) == {("old",), ("new",)}


def test_a_removed_name_may_come_back() -> None:
    folder = Folder()
    folder.change({"f": synced(b"a")})
    folder.sync()
    folder.change({"f": None})
    assert outcomes(folder) == {("f",), ()}
    folder.sync()
    assert outcomes(folder) == {()}


def test_a_directory_is_lost_with_all_that_was_synced_in_it() -> None:
    parent, child = Folder(), Folder()
    parent.change({"d": child})
    child.change({"f": synced(b"a")})
    child.sync()
    assert outcomes(parent) == {(), ("d",)}
    parent.sync()
    found = survivors(parent)["d"]
    assert isinstance(found, Folder)
    assert [*found.names] == ["f"]


def test_a_file_under_two_names_is_still_one_file() -> None:
    folder, contents = Folder(), synced(b"a")
    folder.change({"f": contents, "g": contents})
    folder.sync()
    found = survivors(folder)
    assert found["f"] is found["g"]
