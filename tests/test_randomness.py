import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.randomness import Randomness, SeededRandomness, SystemRandomness

FACES = [SystemRandomness(), SeededRandomness(11)]


def history(chance: Randomness) -> list[object]:
    return [
        chance.below(1000),
        chance.choice("abcdefgh"),
        chance.uniform(0.5, 1.5),
        chance.token(9),
        chance.uuid4(),
        chance.below(1000),
    ]


@given(st.integers(0, 2**64))
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    assert history(SeededRandomness(seed)) == history(SeededRandomness(seed))


def test_another_seed_gives_another_history() -> None:
    assert history(SeededRandomness(1)) != history(SeededRandomness(2))


def test_system_randomness_does_not_repeat_itself() -> None:
    assert history(SystemRandomness()) != history(SystemRandomness())


@pytest.mark.parametrize("chance", FACES, ids=lambda chance: type(chance).__name__)
def test_every_value_stays_in_its_range(chance: Randomness) -> None:
    assert {chance.below(3) for _ in range(200)} == {0, 1, 2}
    assert {chance.choice(["x", "y"]) for _ in range(200)} == {"x", "y"}
    assert all(2.0 <= chance.uniform(2.0, 2.5) <= 2.5 for _ in range(200))
    assert [len(chance.token(count)) for count in (0, 1, 33)] == [0, 1, 33]


@pytest.mark.parametrize("chance", FACES, ids=lambda chance: type(chance).__name__)
def test_a_uuid_says_that_it_is_random(chance: Randomness) -> None:
    text = chance.uuid4()
    assert text == str(uuid.UUID(text))
    assert uuid.UUID(text).version == 4


@pytest.mark.parametrize("chance", FACES, ids=lambda chance: type(chance).__name__)
def test_nothing_can_be_drawn_from_nothing(chance: Randomness) -> None:
    with pytest.raises(ValueError, match="empty range"):
        chance.below(0)
    with pytest.raises(IndexError):
        chance.choice([])


def test_a_seed_shows_itself() -> None:
    assert repr(SeededRandomness(42)) == "<SeededRandomness seed=42>"
