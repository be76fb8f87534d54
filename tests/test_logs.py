import logging

import pytest

from orbitmq.logs import LogLevel, set_log_level


@pytest.mark.parametrize("level", list(LogLevel))
def test_the_level_is_that_of_all_loggers_of_orbitmq(level: LogLevel) -> None:
    before = logging.getLogger("orbitmq").level
    try:
        set_log_level(level)
        assert logging.getLogger("orbitmq.store").getEffectiveLevel() == getattr(
            logging, level.name
        )
    finally:
        logging.getLogger("orbitmq").setLevel(before)
