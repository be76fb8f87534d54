"""The signature of a function as its source has it, the same on every Python.

>>> def send(self, message: bytes, *, timeout_ms: int | None = None) -> None: ...
>>> signature_of("Producer.send", send)
'Producer.send(message: bytes, *, timeout_ms: int | None = None) -> None'
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["about_fields", "fields_of", "returns_of", "signature_of"]

_WIDTH: Final = 96


def signature_of(name: str, function: Callable[..., Any]) -> str:
    """Return the signature under a name, without ``self``; on several lines if it is long."""
    definition = _definition(function)
    arguments = definition.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    is_coroutine = isinstance(definition, ast.AsyncFunctionDef) and not _yields(definition)
    returns = "" if definition.name == "__init__" else f" -> {returns_of(function)}"
    return _call(("await " if is_coroutine else "") + name, _parts(arguments)) + returns


def returns_of(function: Callable[..., Any]) -> str:
    """Return the type that a function returns, as its source has it."""
    returns = _definition(function).returns
    return ast.unparse(returns) if returns else "None"


def fields_of(kind: type[msgspec.Struct]) -> str:
    """Return how an object with fields is made."""
    fields = [
        field.name if field.required else f"{field.name}={_default(field.default)}"
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.UNSET
    ]
    return _call(kind.__name__, fields)


def about_fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings below the fields of a struct."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return {
        field.target.id: " ".join(said.value.value.split())
        for field, said in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
        and isinstance(said.value.value, str)
    }


def _call(name: str, parts: list[str]) -> str:
    line = f"{name}({', '.join(parts)})"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _default(value: object) -> str:
    if value is msgspec.NODEFAULT:
        return "…"
    if isinstance(value, Mapping):
        return repr(dict(value))
    return str(getattr(value, "name", None) or repr(value))


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    node = ast.parse(source).body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{function!r} is not made by a def")
    return node


def _yields(definition: ast.AST) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(definition))


def _parts(arguments: ast.arguments) -> list[str]:
    """Return the arguments one by one, with the mark between positional and named ones."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults = [None] * missing + list(arguments.defaults)
    parts = [_part(*one) for one in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        parts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [_part(*one) for one in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return [*parts, f"**{ast.unparse(arguments.kwarg)}"] if arguments.kwarg else parts


def _part(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    return text if default is None else f"{text} = {ast.unparse(default)}"
