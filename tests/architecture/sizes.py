"""A function fits a screen and a file a sitting; what doesn't yet is listed and may only shrink."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeGuard

from tests.architecture.sources import Module

LIMITS: Mapping[str, int] = {"lines of function": 70, "parameters": 8, "lines of file": 600}

# (what, where) → its size today. An entry that is too generous, or needless, fails as well.
EXCEPTIONS: Mapping[tuple[str, str], int] = {}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    what: str
    where: str
    amount: int


def faults(modules: Iterable[Module], exceptions: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield a line for each size over its limit, and for each exception that could be smaller."""
    sizes = {(size.what, size.where): size.amount for module in modules for size in measure(module)}
    for (what, where), count in sizes.items():
        allowed = exceptions.get((what, where), LIMITS[what])
        if count > allowed:
            yield f"{where}: {count} {what}, {allowed} allowed"
    for (what, where), allowed in exceptions.items():
        count = sizes.get((what, where), 0)
        if count <= LIMITS[what]:
            yield f"{where}: {count} {what} needs no exception any more; take it out"
        elif count < allowed:
            yield f"{where}: {count} {what}, and the exception says {allowed}; write {count}"


def measure(module: Module) -> Iterator[Size]:
    """Yield the size of the file and of each function in it, nested ones included."""
    yield Size("lines of file", module.path, _file_lines(module))
    for name, node in _functions(module.tree, ""):
        where = f"{module.path}::{name}"
        yield Size("lines of function", where, _lines(node))
        yield Size("parameters", where, _parameters(node))


def _file_lines(module: Module) -> int:
    """Count lines without tables (assignments and fields of a module or of its classes) and texts.

    A table of a hundred codes is read entry by entry, and splitting it helps no reader. A limit
    that counted docstrings would be met by leaving them out.
    """
    tables = sum(
        _lines(node)
        for body in _declaration_bodies(module.tree)
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    )
    texts = sum(_lines(node) for node in ast.walk(module.tree) if _is_text(node))
    return len(module.text.splitlines()) - tables - texts


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a node is a docstring, of whatever it stands below."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _declaration_bodies(node: ast.Module | ast.ClassDef) -> Iterator[list[ast.stmt]]:
    yield node.body
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _declaration_bodies(child)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, _Function | ast.ClassDef):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, _Function):
            yield name, child
        yield from _functions(child, name)


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _parameters(node: _Function) -> int:
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    bound = 1 if names[:1] in (["self"], ["cls"], ["mcls"]) else 0
    rest = len(given.kwonlyargs) + (given.vararg is not None) + (given.kwarg is not None)
    return len(names) - bound + rest
