"""The level of orbitmq's log, which operators can change while a server runs."""

import enum
import logging

__all__ = ["LogLevel", "set_log_level"]


class LogLevel(enum.Enum):
    """From which level on lines are logged; the names are those of ``logging``."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def set_log_level(level: LogLevel) -> None:
    """Set the level of all loggers of orbitmq in this process."""
    logging.getLogger("orbitmq").setLevel(level.value)
