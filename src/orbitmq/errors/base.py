"""The root of all errors."""

from os.path import dirname
from typing import ClassVar, Final

__all__ = ["OrbitError"]

_DOOR: Final = "orbitmq.errors"
_PAGE: Final = f"{dirname(dirname(__file__))}/docs/errors.md"  # installed with the package


class OrbitError(Exception):
    """The root of the tree: catch it to catch every error that orbitmq raises on purpose.

    Attributes:
        send_id: for a failed send, its id, which is also in its log lines and its span.
    """

    # Tracebacks show the name by which programs import an error, whichever module defines it.
    __module__ = _DOOR
    retriable: ClassVar[bool] = False
    refresh_route: ClassVar[bool] = False
    send_id: str = ""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(f"{_DOOR}."):
            cls.__module__ = _DOOR

    @property
    def docs(self) -> str:
        """The file with its meaning and what to do, on this machine, and the heading there.

        >>> OrbitError("…").docs.endswith("/orbitmq/docs/errors.md#orbiterror")
        True
        """
        return f"{_PAGE}#{type(self).__name__.lower()}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are pickled between processes, and their constructors take more than ``args``.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[OrbitError], args: tuple[object, ...], state: dict[str, object]
) -> OrbitError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
