"""Which tests run one after the other in one process of ``pytest -n``.

The tests of a file stay together, and so do files that share a costly fixture, which is then
started once. Groups are found by names in the text of a file, since the process that hands out
tests has not collected them. (The marker ``xdist_group`` is of no use: pytest 9.2 keeps the id of a
test where xdist 3.8 doesn't write the group, and then each test is a group.)
"""

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_TESTS = Path(__file__).parent
_ARGUMENT = re.compile(r"\b(\w+): [A-Z]")

# Fixtures that files share. A file that asks for several belongs to the first group here.
_SHARED = {
    "spark": {"spark"},
    "java servers": {"java_cluster", "java_cluster_540", "java_cluster_497"},
    "java clients": {"java", "java_540", "java_497", "java_550", "team"},
}
# Files that start Sparks or Javas of their own, each a group by itself. They begin early: a long
# one that begins last leaves the other cores idle.
_LONG = (
    *("spark/test_kills", "spark/test_transactional_kills", "spark/jobs/test_job_kills"),
    *(
        "interop/test_spark_transactions",
        "interop/test_store_exchange",
        "interop/test_spark_places",
    ),
    *("interop/test_producer_ways", "spark/test_sessions", "interop/test_producer_faults"),
    *("interop/test_nameserver", "interop/test_producer_outbox", "demo/test_run"),
    *("spark/test_spark_pages", "test_reference_docs", "interop/test_producer_secured"),
    "cli/servers/test_up",
)
_FIRST = (*_SHARED, *_LONG)


@functools.cache
def group_of(file: Path) -> str:
    """Return the name of the group of a test file."""
    name = file.relative_to(_TESTS).with_suffix("").as_posix()
    if name in _LONG:
        return name
    asked_for = set(_ARGUMENT.findall(file.read_text()))
    for group, fixtures in _SHARED.items():
        if fixtures & asked_for and (group == "spark" or name.startswith("interop/")):
            return group
    return name


def position(file: Path) -> int:
    """Return where the group of a file stands in a run; those without a place come last."""
    group = group_of(file)
    return _FIRST.index(group) if group in _FIRST else len(_FIRST)


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a whole group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(self.config.rootpath / nodeid.partition("::")[0])
