import pytest

from orbitmq.spark.pulling.pull_span import PullSpan


def whole(stride: PullSpan, answers: int) -> None:
    for _ in range(answers):
        stride.learn(asked=stride.length, covered=stride.length)


def test_it_begins_with_the_most_and_shrinks_to_what_an_answer_covers() -> None:
    stride = PullSpan(1024)
    assert stride.length == 1024
    stride.learn(asked=1024, covered=32)
    assert stride.length == 32


def test_the_rest_of_a_span_teaches_nothing() -> None:
    stride = PullSpan(1024)
    stride.learn(asked=1024, covered=32)
    stride.learn(asked=40, covered=32)  # a stretch from before
    stride.learn(asked=8, covered=8)
    assert stride.length == 32


@pytest.mark.parametrize("answers", [256, 1_000])
def test_it_grows_after_many_whole_answers_never_beyond_the_most(answers: int) -> None:
    stride = PullSpan(40)
    stride.learn(asked=40, covered=32)
    whole(stride, answers)
    assert stride.length == 40


def test_growing_by_mistake_happens_less_and_less_often() -> None:
    stride = PullSpan(1024)
    tries = 0
    for _ in range(10_000):
        tries += stride.length > 32
        stride.learn(asked=stride.length, covered=min(stride.length, 32))
    assert stride.length == 32
    assert 2 <= tries <= 8


def test_it_is_never_zero() -> None:
    stride = PullSpan(8)
    stride.learn(asked=8, covered=0)
    assert stride.length == 1


def test_it_introduces_itself() -> None:
    assert repr(PullSpan(32)) == "<PullSpan of 32, at most 32>"
