import pickle

import pytest

from orbitmq.errors import (
    CommitIncomplete,
    CommitTooLate,
    DataLost,
    InvalidColumn,
    InvalidInput,
    InvalidOffsets,
    InvalidOption,
    LedgerDamaged,
    OrbitError,
    UnknownOption,
)
from orbitmq.message.model import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_an_unknown_option_names_the_nearest_or_the_page() -> None:
    assert str(UnknownOption("subscrbe", nearest="subscribe")) == (
        "there is no option 'subscrbe'; did you mean subscribe?"
    )
    assert "docs/spark.md lists all options" in str(UnknownOption("x" * 999, nearest=None))
    assert len(str(UnknownOption("x" * 999, nearest=None))) < 200


@pytest.mark.parametrize(
    "error",
    [
        UnknownOption("subscrbe", nearest="subscribe"),
        InvalidOption("tls is 'yes'", field="tls"),
        InvalidOffsets("x", field="startingOffsets", position=7),
        InvalidColumn("x", field="value"),
        DataLost("x", queue=QUEUE, wanted=5, available=(6, 9)),
        LedgerDamaged("x", path="write-1/DECISION"),
        CommitTooLate("write-1", "began long ago"),
        CommitIncomplete("write-1", 7, "/ledger", "no answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_task_reaches_the_driver_whole(error: OrbitError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_what_a_user_gave_is_bad_input_and_lost_data_is_not() -> None:
    assert issubclass(InvalidOption, InvalidInput)
    assert issubclass(InvalidOffsets, InvalidOption)
    assert issubclass(InvalidColumn, InvalidInput)
    assert not issubclass(DataLost, InvalidInput)
    assert not DataLost.retriable
