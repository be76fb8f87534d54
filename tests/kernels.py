"""The functions that the compiled kernel has, in both implementations."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest

from orbitmq import kernel

HOMES = {
    "answer_frames": "orbitmq.wire.plain_send.answer_frames",
    "batch_records": "orbitmq.store.log.commit_log.usual_batch_records",
    "chain_entries": "orbitmq.store.index.index_file.chain_entries",
    "cut_sends": "orbitmq.broker.sending.plain.lane.cut_leading",
    "index_keys": "orbitmq.store.index.key_index.index_keys",
    "place_records": "orbitmq.store.log.commit_log.place_leading",
}
"""Where each function is called."""

Functions = Mapping[str, Callable[..., Any]]

_MISSING = "orbitmq-speed is not installed (make speed)"
_compiled = kernel.load("")
needs_kernel = pytest.mark.skipif(_compiled is None, reason=_MISSING)


def in_python() -> Functions:
    for home in HOMES.values():
        import_module(home.rpartition(".")[0])
    return {name: kernel.IN_PYTHON[name] for name in HOMES}


def in_kernel() -> Functions:
    return {name: getattr(_compiled, name) for name in HOMES}


# Without the kernel, test_kernel.py says once that it is missing.
@pytest.fixture(scope="module", params=["python", "kernel"] if _compiled else ["python"])
def implementation(request: pytest.FixtureRequest) -> Iterator[Functions]:
    """All of orbitmq uses one implementation; a test gets its functions by name."""
    functions = in_python() if request.param == "python" else in_kernel()
    with pytest.MonkeyPatch.context() as patch:
        for name, home in HOMES.items():
            patch.setattr(home, functions[name])
        yield functions
