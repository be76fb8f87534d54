from pathlib import Path

import pytest

from bench.scan import filled, pulled, readings
from orbitmq.store.message_store import MessageStore
from tests.bench.tiny import TINY


@pytest.fixture
def directory(tmp_path: Path) -> str:
    filled(str(tmp_path), TINY, 150, 4)
    return str(tmp_path)


def test_every_way_to_read_sees_every_message(directory: str) -> None:
    assert {name: read() for name, read in readings(directory).items()} == dict.fromkeys(
        readings(directory), 150
    )


def test_pulls_see_every_message(directory: str) -> None:
    store = MessageStore(directory, TINY)
    store.open()
    assert pulled(store) == 150
    store.close()
