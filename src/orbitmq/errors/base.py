"""The root of all errors."""

from typing import ClassVar, Final

__all__ = ["OrbitError"]

_DOOR: Final = "orbitmq.errors"


class OrbitError(Exception):
    """The root of the tree: catch it to catch all that orbitmq raises on purpose.

    Attributes:
        send_id: of an error that ended a send, the id that its log lines and its span have too.

    """

    # Tracebacks name an error as programs import it, wherever below the door it is written.
    __module__ = _DOOR
    retriable: ClassVar[bool] = False
    refresh_route: ClassVar[bool] = False
    send_id: str = ""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(f"{_DOOR}."):
            cls.__module__ = _DOOR

    @property
    def docs(self) -> str:
        """Where the documentation tells what it means and what to do.

        >>> OrbitError("…").docs
        'docs/errors.md#orbiterror'
        """
        return f"docs/errors.md#{type(self).__name__.lower()}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes, and their constructors take more than the one text of ``args``.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[OrbitError], args: tuple[object, ...], state: dict[str, object]
) -> OrbitError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
