"""Tables in the documents say what the code says."""

import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import msgspec
import pytest

from orbitmq.broker.handlers.operator import refused
from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.cli.main import parser
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.observe.prometheus import FAMILIES
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.failover.settings import FailoverSettings
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.settings import NetSettings
from orbitmq.net.tls_settings import TlsSettings
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import RequestCode, name_of_request
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers import request_type
from orbitmq.wire.session import Identity
from tests.architecture.documents import Document, documents_below
from tests.architecture.sources import ROOT

Row = list[str]


def table(document: str, heading: str) -> list[Row]:
    """Return the rows of the first table below a heading, without its head."""
    below = (ROOT / document).read_text().partition(f"\n## {heading}\n")[2]
    rows = re.search(r"(?m)(^\|.*\n)+", below)
    assert rows, f"{document} has no table below {heading!r}"
    cells = [line.strip("|").split("|") for line in rows[0].splitlines()]
    return [[cell.strip() for cell in row] for row in cells[2:]]


@pytest.mark.parametrize(
    ("heading", "settings"),
    [
        ("Connections: `orbitmq.net.settings.NetSettings`", NetSettings),
        ("Identity: `orbitmq.wire.session.Identity`", Identity),
        ("Client: `orbitmq.client.settings.ClientSettings`", ClientSettings),
        ("Producer: `orbitmq.client.settings.ProducerSettings`", ProducerSettings),
        ("Consumer: `orbitmq.client.consumer.settings.ConsumerSettings`", ConsumerSettings),
        (
            "Pull consumer: `orbitmq.client.consumer.settings.PullConsumerSettings`",
            PullConsumerSettings,
        ),
        ("Nameserver: `orbitmq.nameserver.settings.NameserverSettings`", NameserverSettings),
        ("TLS of servers: `orbitmq.net.tls_settings.TlsSettings`", TlsSettings),
        ("Store: `orbitmq.store.settings.StoreSettings`", StoreSettings),
        ("Broker: `orbitmq.broker.settings.BrokerSettings`", BrokerSettings),
        ("Replication: `orbitmq.replication.settings.ReplicationSettings`", ReplicationSettings),
        ("Elections: `orbitmq.failover.settings.FailoverSettings`", FailoverSettings),
    ],
)
def test_the_settings_are_those_of_the_code(heading: str, settings: type[msgspec.Struct]) -> None:
    shown = {row[0].strip("`"): row[1] for row in table("docs/settings.md", heading)}
    defaults = {field.name: field.default for field in msgspec.structs.fields(settings)}
    assert shown == {name: as_shown(value) for name, value in defaults.items()}


def as_shown(value: object) -> str:
    if value is None:
        return "none"
    return str(getattr(value, "name", value))


def test_the_codes_are_those_of_the_code() -> None:
    shown = {row.name: (int(row.code), row.header) for row in code_rows()}
    assert shown == {code.name: (code.value, header_name(code)) for code in RequestCode}


class CodeRow(NamedTuple):
    code: str
    name: str
    header: str
    nameserver: str
    broker: str
    why: str


def code_rows() -> list[CodeRow]:
    return [CodeRow(*row) for row in table("docs/compatibility.md", "Request codes")]


def header_name(code: RequestCode) -> str:
    header = request_type(code)
    if header is None:
        return "–"
    return "no fields" if header is NoFields else f"`{header.__name__}`"


@cache
def served() -> dict[str, frozenset[int]]:
    """Return the codes that each server has handlers for."""

    async def make(clock: VirtualClock) -> dict[str, frozenset[int]]:
        network = MemoryNetwork()
        nameserver = Nameserver(
            NameserverSettings(kv_config_path=""),
            network=network,
            clock=clock,
            workers=InlineWorkers(),
        )
        machine = Machine(
            network=network,
            disk=SimulatedDisk(),
            clock=clock,
            workers=lambda _name, _count: InlineWorkers(),
        )
        broker = Broker(LiveSettings(), machine)
        codes = broker.handlers.codes - refused.REASONS.keys()
        return {"nameserver": nameserver.handlers.codes, "broker": codes}

    return run_virtual(make)


@pytest.mark.parametrize("server", ["nameserver", "broker"])
def test_the_codes_that_are_said_to_be_served_are(server: str) -> None:
    said = {row.name for row in code_rows() if getattr(row, server) in ("yes", "partly")}
    assert said == {name_of_request(code) for code in served()[server]}


def test_what_is_not_served_or_not_wholly_has_a_reason() -> None:
    for row in code_rows():
        assert {row.nameserver, row.broker} <= {"yes", "partly", "no", "–"}, row.name
        is_whole = "yes" in (row.nameserver, row.broker)
        assert bool(row.why) is not is_whole, f"{row.name}: {row.why or 'no reason'}"


def test_each_call_of_an_admin_has_its_task() -> None:
    tasks = table("docs/admin.md", "Which call for which task")
    said = {call for row in tasks for call in re.findall(r"`(\w+)`", row[1])}
    calls = {
        name
        for name, call in inspect.getmembers(Admin)
        if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
    }
    assert said == {name for name in calls if not name.startswith("_")} - {"start", "close"}


def told(statistics: SendStatistics | ConsumeStatistics) -> set[str]:
    """Return the names of the figures; a histogram has one."""
    return {re.sub("_(bucket|sum|count)$", "", one.name) for one in statistics.samples()}


def test_the_figures_of_a_consumer_are_those_of_the_code() -> None:
    statistics = ConsumeStatistics("billing", SystemClock())
    statistics.consumed("orders", count=1, took_ms=1)
    shown = {row[0].strip("`") for row in table("docs/metrics.md", "Metrics of clients")}
    assert shown == told(statistics)


def test_the_figures_of_a_producer_are_those_of_the_code() -> None:
    statistics = SendStatistics("billing", now_ms=0)
    statistics.failed_with(TimeoutError())
    assert {row[0].strip("`") for row in table("docs/producer.md", "Statistics")} == told(
        statistics
    )


def test_queries_name_figures_that_there_are() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    named = set(re.findall(r"orbitmq_(?:producer|consumer)_\w+", text))
    assert len(named) > 5
    for name in named:
        assert re.sub("_(bucket|sum|count)$", "", name) in FAMILIES, name


@pytest.mark.timeout(300)
def test_spark_in_ten_lines_prints_what_the_readme_says() -> None:
    below = (ROOT / "README.md").read_text().partition("\n## Spark in ten lines\n")[2]
    (program, printed) = re.findall(r"(?ms)^```(?:python)?\n(.*?)^```$", below)[:2]
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False
    )
    assert run.stderr == ""
    assert run.stdout.strip() == printed.strip()


def typed(document: Document) -> Iterator[str]:
    """Yield the commands of orbitmq in the shell blocks of a document."""
    for block in document.blocks:
        if block.language in ("sh", "bash", "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                for part in re.split(r" \| | && | > | &$", line.removeprefix("$ ")):
                    if part.strip().startswith("orbitmq "):
                        yield part.strip()


def test_commands_in_documents_are_understood() -> None:
    # docs/commands.md is run, command by command, by tests/cli/test_commands_page.py.
    found = [
        (document.path, command)
        for document in documents_below(ROOT)
        if document.path != "docs/commands.md"
        for command in typed(document)
    ]
    assert len(found) > 30
    for path, command in found:
        words = shlex.split(command, comments=True)[1:]
        try:
            parser().parse_args(words)
        except InvalidInput as error:
            raise AssertionError(f"{path} has {command!r}: {error}") from error
