"""Docstrings as Markdown: their sections, lists and examples.

>>> print(as_markdown('''Do it.
...
...     Args:
...         how: the ``way``, on
...             two lines.
... '''))
Do it.
<BLANKLINE>
- `how`: the `way`, on
  two lines.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Final

__all__ = ["as_markdown"]

_HEADS: Final = {
    "Args:": "",
    "Attributes:": "",
    "Raises:": "Raises",
    "Returns:": "Returns",
    "Yields:": "Yields",
}
_ENTRY: Final = re.compile(r"    (\*{0,2}[\w, .]+): ?(.*)")


def as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown."""
    text = inspect.cleandoc(docstring)
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    return "\n\n".join(part for block in _joined(blocks) for part in _parts(block))


def _joined(blocks: list[str]) -> Iterator[str]:
    """Yield the blocks, those of one literal or of one example joined."""
    held = ""
    for block in blocks:
        is_example = held.startswith(">>>") and block.startswith(">>>")
        if is_example or (_is_literal(held) and block.startswith("    ")):
            held = f"{held}\n\n{block}"
            continue
        if held:
            yield held
        held = block
    if held:
        yield held


def _is_literal(block: str) -> bool:
    return block.endswith("::") or "::\n\n" in block or block.startswith("::\n")


def _parts(block: str) -> Iterator[str]:
    head, _, rest = block.partition("\n")
    if head in _HEADS:
        if _HEADS[head]:
            yield f"{_HEADS[head]}:"
        yield "\n".join(_entries(rest))
    elif block.startswith(">>>"):
        yield f"```pycon\n{block}\n```"
    elif block.startswith("::\n"):
        yield _literal(block.removeprefix("::"))
    elif "::\n\n" in block:
        prose, _, literal = block.partition("::\n\n")
        yield _inline(prose) + ":"
        yield _literal(literal)
    else:
        yield _inline(block)


def _literal(text: str) -> str:
    literal = textwrap.dedent(text).strip("\n")
    return f"```{'py' if _is_python(literal) else ''}\n{literal}\n```"


def _is_python(text: str) -> bool:
    try:
        compile(text, "docstring", "exec", flags=0x2000)  # with await on the top level
    except SyntaxError:
        return False
    return True


def _entries(section: str) -> Iterator[str]:
    for line in section.splitlines():
        if entry := _ENTRY.match(line):
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            yield f"- {names}: {_inline(entry[2])}".rstrip()
        else:
            yield "  " + _inline(line.strip())


def _inline(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r":\w+:(?=`)", "", text))
