"""The root of all errors."""

from typing import ClassVar

__all__ = ["OrbitError"]


class OrbitError(Exception):
    """The root of the tree: catch it to catch all that orbitmq raises on purpose."""

    retriable: ClassVar[bool] = False
    refresh_route: ClassVar[bool] = False

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
