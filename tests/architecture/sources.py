"""Modules as the laws see them: a path, a room, and every outside name they touch."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "orbitmq"

_IMPORTING_CALLS = ("__import__", "importlib.import_module", "importlib.__import__")
# A module named at run time may be any: it is touched under this name.
_UNKNOWN_MODULE = "builtins.__import__"


class Touch(NamedTuple):
    """A dotted name that a module uses, such as ``os.fsync``, and the line where it does."""

    name: str
    line: int
    is_for_types: bool = False
    """Whether it stands below ``if TYPE_CHECKING:`` and is never imported when the program runs."""


@dataclass(frozen=True)
class Module:
    """One file below ``src/``, named from there: ``orbitmq/wire/frame.py``."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("/__init__.py")

    @property
    def name(self) -> str:
        """The dotted name: ``orbitmq.wire.frame``."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def room(self) -> str:
        """The first part below the package (``wire``, ``clock``), or the package itself."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else parts[0]

    @property
    def place(self) -> str:
        """The path below the package: ``wire/frame.py``."""
        return self.path.removeprefix(f"{PACKAGE}/")

    @cached_property
    def imports(self) -> tuple[Touch, ...]:
        """What the import statements name, and calls that import by a literal name."""
        return tuple(_imports(self.tree))

    @cached_property
    def touches(self) -> tuple[Touch, ...]:
        """What is imported, and what is reached through it, whatever it was renamed to."""
        aliases = dict(_aliases(self.tree))
        return (*self.imports, *_uses(self.tree, aliases))


def modules_below(folder: Path) -> tuple[Module, ...]:
    """Read every module below a folder, in the order of their paths."""
    return tuple(
        Module(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    )


def _imports(tree: ast.Module) -> Iterator[Touch]:
    aliases = dict(_aliases(tree))
    for_types = {id(below) for node in ast.walk(tree) for below in _for_types(node)}
    for node in ast.walk(tree):
        types = id(node) in for_types
        if isinstance(node, ast.Import):
            yield from (Touch(alias.name, node.lineno, types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (Touch(f"{base}.{alias.name}", node.lineno, types) for alias in node.names)
        elif isinstance(node, ast.Call) and _resolve(node.func, aliases) in _IMPORTING_CALLS:
            yield Touch(_literal(node.args[:1]) or _UNKNOWN_MODULE, node.lineno)


def _for_types(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands below ``if TYPE_CHECKING:``, if the node is one."""
    if isinstance(node, ast.If) and _dotted(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for statement in node.body:
            yield from ast.walk(statement)


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each local name that an import binds, with what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or bound, bound
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _uses(tree: ast.Module, aliases: dict[str, str]) -> Iterator[Touch]:
    own_names = {name for node in ast.walk(tree) for name in _bound_names(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            continue
        dotted = _dotted(node)
        if dotted is None:
            continue
        if dotted.partition(".")[0] in aliases:
            yield Touch(_resolve(node, aliases), node.lineno)
        elif isinstance(node, ast.Name) and node.id not in own_names:
            yield Touch(f"builtins.{node.id}", node.lineno)
        if isinstance(node, ast.Attribute):
            yield Touch(f"?.{node.attr}", node.lineno)  # of an object whose type isn't known


def _resolve(node: ast.AST, aliases: dict[str, str]) -> str:
    """Return the dotted name with what its first part stands for; empty if it isn't one."""
    first, _, rest = (_dotted(node) or "").partition(".")
    return ".".join(filter(None, (aliases.get(first, first), rest)))


def _bound_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id


def _dotted(node: ast.AST) -> str | None:
    """Return ``os.path.join`` for an attribute chain; ``getattr`` with a literal is one too."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value) or '?'}.{node.attr}"
    if isinstance(node, ast.Call) and _dotted(node.func) == "getattr":
        attribute = _literal(node.args[1:2])
        return f"{_dotted(node.args[0]) or '?'}.{attribute}" if attribute else None
    return None


def _literal(nodes: list[ast.expr]) -> str | None:
    """Return the text of the first node if it is a literal text."""
    first = nodes[0] if nodes else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
