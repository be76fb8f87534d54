"""A broker that changes its role on the same files."""

from pathlib import Path

from bench.members import member
from bench.parties import OURS, stores
from tests.interop.our_servers import our_nameserver


def test_a_broker_takes_another_role_on_its_files_and_is_gone_at_the_end(tmp_path: Path) -> None:
    directory = tmp_path / "one"
    with (
        our_nameserver(tmp_path) as nameserver,
        member(OURS, directory, "a", nameserver) as broker,
    ):
        broker.start({"brokerRole": "SLAVE", "brokerId": 1})
        first = broker.pid
        assert not stores(broker.address)
        assert not broker.copies()
        broker.kill()
        broker.start({"brokerRole": "ASYNC_MASTER", "brokerId": 0})
        assert broker.pid != first
        assert stores(broker.address)
        broker.kill()
        assert not broker.copies()
        assert not stores(broker.address)
    assert not directory.exists()
