"""The compiled kernel, if it is installed: inner loops that do what Python's functions do.

``orbitmq-speed`` (the extra ``orbitmq[speed]``) has functions with the names, arguments, results
and errors of those that ``compiled`` decorates. Without it, with another version of it, or with
``ORBITMQ_SPEED=0`` in the environment, the decorated functions are used.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final, TypeVar

from orbitmq.settings import environment

__all__ = ["IN_PYTHON", "VERSION", "compiled", "load"]

VERSION: Final = "0.1.0"
"""The version of the kernel that these functions agree with."""

log = logging.getLogger("orbitmq")

_Function = TypeVar("_Function", bound=Callable[..., object])
_in_python: dict[str, Callable[..., object]] = {}
IN_PYTHON: Final = MappingProxyType(_in_python)
"""The decorated functions by name."""


def load(
    switch: str, find: Callable[[], ModuleType] = lambda: import_module("orbitmq_speed")
) -> ModuleType | None:
    """Return the kernel; None if it is not installed, switched off, or of another version.

    >>> load("0") is None
    True
    """
    if switch == "0":
        return None
    try:
        module = find()
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        log.warning("orbitmq-speed is installed, but can't be used: %s", error)
        return None
    version = getattr(module, "__version__", "unknown")
    if version != VERSION:
        log.warning(
            "orbitmq-speed is of version %s, and not used: install orbitmq[speed], which has %s",
            version,
            VERSION,
        )
        return None
    return module


_kernel: Final = load(environment("ORBITMQ_SPEED"))


def compiled(function: _Function) -> _Function:
    """Return the kernel's function of the same name; without a kernel, the function itself."""
    _in_python[function.__name__] = function
    found: _Function = getattr(_kernel, function.__name__, function)
    return found
