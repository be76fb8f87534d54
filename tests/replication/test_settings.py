"""The settings of replication; those of a broker test the keys."""

import pytest

from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address
from orbitmq.replication.settings import REPLICATION_NAMES, ReplicationSettings


def test_every_field_has_a_key() -> None:
    assert sorted(REPLICATION_NAMES.values()) == sorted(ReplicationSettings.__struct_fields__)


def test_the_master_may_be_named() -> None:
    assert ReplicationSettings().master() is None
    named = ReplicationSettings(master_address="10.0.0.1:10912")
    assert named.master() == Address("10.0.0.1", 10912)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"master_address": "10.0.0.1"}, "not of the form host:port"),
        ({"master_address": "10.0.0.1:0"}, "haListenPort of the master"),
        ({"piece_bytes": 5 * 1024 * 1024}, "piece_bytes is 5242880"),
        ({"in_sync_replicas": 0}, "it must be from 1"),
        ({"listen_port": 70_000}, "from 0 to 65535"),
    ],
)
def test_what_can_not_work_is_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        ReplicationSettings(**given)  # type: ignore[arg-type]
    assert caught.value.field in given
