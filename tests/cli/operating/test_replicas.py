"""How far slaves are behind, from a shell."""

from orbitmq.cli.operating.replicas import Copy, replica_rows
from orbitmq.client.admin.results import Broker, HARuntimeInfo
from orbitmq.errors import ConnectFailed
from orbitmq.wire.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo
from tests.cli.operating.conftest import Shop

MASTER = HARuntimeInfo(
    master=True,
    master_commit_log_max_offset=12_000,
    in_sync_slave_nums=1,
    ha_connection_info=(HAConnectionRuntimeInfo(in_sync=True), HAConnectionRuntimeInfo()),
)


def slave(end: int) -> HARuntimeInfo:
    return HARuntimeInfo(ha_client_runtime_info=HAClientRuntimeInfo(max_offset=end))


def named(name: str, number: int) -> Broker:
    return Broker("C", name, number, f"{name}:{number}")


def test_a_master_without_slaves(shop: Shop) -> None:
    head, row = shop.printed("broker replicas").splitlines()
    assert head.split() == ["BROKER", "ADDRESS", "ROLE", "LOG", "END", "BEHIND", "SLAVES"]
    assert row.split()[:3] == ["broker-a/0", shop.broker, "master"]
    assert row.endswith("0, 0 in sync")
    (one,) = shop.json(f"broker replicas {shop.broker}")
    assert one["log_end"] == one["state"]["master_commit_log_max_offset"] > 0
    assert one["behind_bytes"] is None


def test_slaves_are_as_far_behind_as_their_logs_are_shorter() -> None:
    rows = replica_rows(
        [
            Copy(named("a", 0), MASTER),
            Copy(named("a", 1), slave(11_000)),
            Copy(named("a", 2), slave(12_010)),  # asked after the master
            Copy(named("a", 3), ConnectFailed("refused")),
            Copy(named("b", 1), slave(5)),
        ]
    )
    assert [row[3:] for row in rows] == [
        ("12,000", "-", "2, 1 in sync"),
        ("11,000", "1,000", "-"),
        ("12,010", "0", "-"),
        ("no answer", "-", "-"),
        ("5", "-", "-"),
    ]


def test_a_broker_that_is_not_there(shop: Shop) -> None:
    assert shop.ended("broker replicas nowhere") == (
        2,
        "orbitmq: no broker is named nowhere\n",
    )
