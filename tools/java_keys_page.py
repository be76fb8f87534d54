"""``docs/java-keys.md``: how each key of Java's files is treated, from ``orbitmq.java_keys``."""

from collections.abc import Iterator

from orbitmq.java_keys import TABLE, Kind

__all__ = ["page"]

_HEAD = """\
# Keys of Java's files

Every key of Java 5.4.0's broker and nameserver files, by the class that has it in Java. Written
from `src/orbitmq/java_keys.py` by `make reference`.

- **Served**: a [setting](settings.md).
- **No effect**: it tunes something that does not exist here. It is accepted, and an info line says
  why.
- **Refused**: it promises safety or a behaviour that does not exist here. A server does not start
  with it, unless it has the value that turns the promise off.

Any other key is a warning that suggests the nearest name. `Folklore` are keys of widely copied
files that no Java class has.
"""


def page() -> str:
    """Return the text of the page."""
    classes = list(dict.fromkeys(row.java_class for _, row in TABLE))
    return "\n".join([_HEAD, *(part for name in classes for part in _of_class(name))])


def _of_class(name: str) -> Iterator[str]:
    rows: dict[tuple[Kind, str, str], list[str]] = {}
    for key, row in TABLE:
        if row.java_class == name:
            rows.setdefault((row.kind, row.why, row.unless), []).append(key)
    yield from (f"## {name}", "", "| keys | | why |", "|---|---|---|")
    for (kind, why, unless), keys in rows.items():
        named = ", ".join(f"`{key}`" for key in sorted(keys))
        yield f"| {named} | {_treated(kind, unless)} | {why} |"
    yield ""


def _treated(kind: Kind, unless: str) -> str:
    if kind is Kind.REFUSED:
        return f"refused, unless it is {f'`{unless}`' if unless else 'empty'}"
    return "served" if kind is Kind.SERVED else "no effect"
