import copy
import pickle

from orbitmq.errors import OrbitError, TopicNotFound


def test_an_error_tells_where_it_is_documented() -> None:
    assert OrbitError("x").docs == "docs/errors.md#orbiterror"
    assert TopicNotFound(17, None).docs == "docs/errors.md#topicnotfound"


def test_an_error_survives_a_copy_and_a_pickle() -> None:
    error = TopicNotFound(17, "no such topic", address="ns:9876")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
