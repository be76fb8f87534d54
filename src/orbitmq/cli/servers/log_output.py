"""Where and how a server command logs: text or JSON, to stderr or to a file.

A line of JSON is one object, an exception included::

    {"time": "2026-11-16T17:43:32.123Z", "level": "ERROR", "logger": "orbitmq.broker",
     "message": "…", "process": 4711, "broker": "broker-a", "exception": "Traceback …"}
"""

import argparse
import json
import logging
import sys
from logging.handlers import WatchedFileHandler
from typing import Final

from orbitmq.clock import utc_text
from orbitmq.errors import InvalidInput
from orbitmq.logs import LogLevel, set_log_level
from orbitmq.settings import Property

__all__ = ["JsonLines", "add_log_options", "level_of", "log_arguments", "start_log"]

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_NOT_OF_A_BROKER: Final = ("orbitmq.nameserver", "orbitmq.supervisor")


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add ``--log-format``, ``--log-file``, ``--log-level`` and ``--quiet``."""
    command.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="the format of log lines; json: an object per line (%(default)s)",
    )
    command.add_argument(
        "--log-file",
        metavar="FILE",
        help="log to this file instead of stderr; it may be rotated, and is created again",
    )
    level = command.add_mutually_exclusive_group()
    level.add_argument(
        "--log-level",
        choices=[one.value for one in LogLevel],
        help="what is logged (INFO); overrides the setting logLevel",
    )
    level.add_argument(
        "--quiet",
        dest="log_level",
        action="store_const",
        const=LogLevel.WARNING.value,
        help="log warnings and errors alone, as --log-level WARNING",
    )


def log_arguments(arguments: argparse.Namespace) -> list[str]:
    """Return the options by which another command logs in the same way."""
    file = ["--log-file", arguments.log_file] if arguments.log_file else []
    level = ["--log-level", arguments.log_level] if arguments.log_level else []
    return ["--log-format", arguments.log_format, *file, *level]


def level_of(arguments: argparse.Namespace) -> list[Property]:
    """Return the setting that ``--log-level`` stands for; none without it."""
    if arguments.log_level is None:
        return []
    return [Property("logLevel", arguments.log_level, "--log-level")]


def start_log(arguments: argparse.Namespace, *, broker: str | None = None) -> None:
    """Log as the options say; ``broker`` is the name of the only broker of the process.

    Raise InvalidInput if the file can't be written.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if arguments.log_file:
        try:
            # It looks before each line whether the file was moved, and then begins another.
            # What UTF-8 can't have is escaped, as on stderr, to what JSON can read.
            handler = WatchedFileHandler(
                arguments.log_file, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise InvalidInput(
                f"can't write the log to {arguments.log_file}: {error.strerror}", field="log_file"
            ) from error
    as_json = arguments.log_format == "json"
    handler.setFormatter(JsonLines(broker) if as_json else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if arguments.log_level is not None:
        set_log_level(LogLevel(arguments.log_level))


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def __init__(self, broker: str | None = None) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without its end."""
        fields: dict[str, str | int | None] = {
            "time": utc_text(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if self._broker is not None and not record.name.startswith(_NOT_OF_A_BROKER):
            fields["broker"] = self._broker
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields, ensure_ascii=False)
