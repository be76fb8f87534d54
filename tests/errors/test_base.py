import copy
import pickle
from pathlib import Path

from orbitmq.errors import InvalidInput, OrbitError, SendFailed, TopicNotFound, UnknownOption


def test_an_error_has_the_address_of_its_documentation() -> None:
    path, _, heading = TopicNotFound(17, None).docs.partition("#")
    assert heading == "topicnotfound"
    assert "### TopicNotFound\n" in Path(path).read_text()
    assert OrbitError("x").docs == f"{path}#orbiterror"


def test_an_error_survives_a_copy_and_a_pickle() -> None:
    error = TopicNotFound(17, "no such topic", address="ns:9876")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_an_error_is_named_as_programs_import_it() -> None:
    for kind in (OrbitError, InvalidInput, SendFailed, UnknownOption, TopicNotFound):
        assert kind.__module__ == "orbitmq.errors"

    class TheirOwn(OrbitError):
        pass

    assert TheirOwn.__module__ == __name__
