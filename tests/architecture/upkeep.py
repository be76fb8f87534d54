"""Each module answers to a test file of its own, and each public name is documented."""

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tests.architecture.sources import PACKAGE, Module

# path below the package → which test covers it instead, and why that is enough
COVERED_ELSEWHERE: Mapping[str, str] = {
    "failover/consensus.py": "an interface; tests/testing/test_consensus and interop/test_etcd",
    "testing/simulation/calls.py": "tests/simulation: what clients ask in a run",
    "testing/simulation/elected_servers.py": "tests/simulation: they are what is run",
    "testing/simulation/elected_troubles.py": "tests/simulation: they happen in a run",
    "testing/simulation/histories.py": "tests/testing/simulation/test_laws: what laws judge",
    "testing/simulation/many.py": "tests/simulation: all seeds are run by it",
    "testing/simulation/members.py": "tests/simulation: they live in a run",
    "testing/simulation/plan.py": "tests/simulation: seeds are of every kind",
    "testing/simulation/routes.py": "tests/simulation: clients find the master by them",
    "testing/simulation/run.py": "tests/simulation: the run itself",
    "testing/simulation/senders.py": "tests/simulation: they live in a run",
    "testing/simulation/servers.py": "tests/simulation: they are what is run",
    "testing/simulation/transactions.py": "tests/simulation: they live in a run",
    "testing/simulation/troubles.py": "tests/simulation: they happen in a run",
    "testing/simulation/__main__.py": "tests/simulation: the command is run there",
    "message/buffer.py": "one name for a union of types; mypy checks it",
}


def untested(
    modules: Iterable[Module], tests: Path, covered_elsewhere: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each module without a test file, and for each needless exception.

    A module of declarations alone (tables, enums, structs without methods) may share the table
    test of its package: ``wire/headers/send.py`` is covered by ``tests/wire/test_headers.py``, or
    by ``tests/wire/headers/test_declarations.py``.
    """
    for module in modules:
        if module.is_package or not module.path.startswith(f"{PACKAGE}/"):
            continue
        found = any((tests / name).is_file() for name in _test_files(module))
        excepted = module.place in covered_elsewhere
        if not found and not excepted:
            yield f"{module.path}: has no test file {next(_test_files(module))}"
        elif found and excepted:
            yield f"{module.path}: has a test file now; take its exception out"


def _test_files(module: Module) -> Iterator[str]:
    place = Path(module.place)
    yield (place.parent / f"test_{place.name}").as_posix()
    if len(place.parts) > 2 and is_declaration(module):
        yield (place.parent.parent / f"test_{place.parent.name}.py").as_posix()
        yield (place.parent / "test_declarations.py").as_posix()


def is_declaration(module: Module) -> bool:
    """Return whether the module defines no function and no method."""
    return not any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(module.tree)
    )


def undocumented(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each name of a door's ``__all__`` that is missing or has no docstring."""
    for module in modules:
        if module.is_package or "/" not in module.place:
            yield from door_faults(importlib.import_module(module.name))


def door_faults(door: ModuleType) -> Iterator[str]:
    """Yield a line for each fault of one imported door."""
    if not door.__doc__:
        yield f"{door.__name__}: has no docstring"
    for name in getattr(door, "__all__", ()):
        value = getattr(door, name, None)
        if value is None:
            yield f"{door.__name__}.{name}: is in __all__ and can't be imported"
        elif (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
            yield f"{door.__name__}.{name}: has no docstring"
