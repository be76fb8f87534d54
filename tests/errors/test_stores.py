import pytest

from orbitmq.errors import StoreLocked


@pytest.mark.parametrize(("pid", "holder"), [(7, "process 7"), (None, "another process")])
def test_a_locked_store_names_the_process_that_holds_it(pid: int | None, holder: str) -> None:
    error = StoreLocked("data", pid)
    assert (error.path, error.pid) == ("data", pid)
    assert f"data is locked by {holder}" in str(error)
