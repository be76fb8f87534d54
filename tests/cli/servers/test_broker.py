"""``orbitmq broker`` imports what its arguments name: a broker, or commands about brokers."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from orbitmq.cli.main import parser
parser("broker").parse_args(sys.argv[1:])
print(*sys.modules)
"""
ADMIN, SERVER = "orbitmq.client.admin.admin", "orbitmq.broker.server"


def imported(*arguments: str) -> set[str]:
    """Return the modules that are there when the arguments are parsed, before anything is run."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "broker", *arguments],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(ran.stdout.split())


def test_who_runs_a_broker_needs_no_admin() -> None:
    assert not {ADMIN, "orbitmq.cli.operating.broker"} & imported("--set", "brokerName=broker-b")


@pytest.mark.parametrize("command", ["list", "controller"])
def test_who_asks_brokers_needs_none(command: str) -> None:
    modules = imported(command, *(["127.0.0.1:10911"] if command == "controller" else []))
    assert ADMIN in modules
    assert SERVER not in modules
