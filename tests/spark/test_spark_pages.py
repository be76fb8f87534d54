"""The programs of the pages about Spark run, in their order, over a cluster with what they need."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orbitmq import Message, ReceiptLog, RetryLater, StoredMessage
from orbitmq.blocking import Consumer, Producer
from orbitmq.testing.broker import BrokerUnderTest, start
from tests.architecture.documents import NOT_RUN, Document
from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = 24
PAGES = (
    *("docs/spark.md", "docs/pipeline/archive.md", "docs/pipeline/replay.md"),
    *("docs/pipeline/reconcile.md", "docs/pipeline/rebuild.md", "docs/pipeline/profile.md"),
    *("docs/pipeline/trace.md", "docs/pipeline/dead-letters.md"),
)
FILES = ("archive", "ledger", "receipts.jsonl", "slow", "slow-checkpoint")
"""What programs name from the directory that they run in; Spark has another."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[BrokerUnderTest]:
    """Orders with traces, receipts and a group that failed on one of them."""
    with start() as broker:
        broker.create_topic("orders", queues=2)
        with (
            ReceiptLog(place / "receipts.jsonl") as receipts,
            Producer("shop", nameserver=broker.nameserver, trace=True) as producer,
        ):
            producer.add_hook(receipts)
            for number in range(ORDERS):
                tags = "open" if number % 3 else "paid"
                producer.send(Message("orders", b"tea", tags=tags, properties={"country": "DE"}))
        consumer = Consumer(
            "billing",
            nameserver=broker.nameserver,
            subscribe={"orders": "*"},
            consume_from="first",
            trace=True,
        )
        consumer.on_message(refuse_the_first)
        with consumer:
            broker.wait_messages("%DLQ%billing")
            broker.wait_consumed("billing")
        yield broker


def refuse_the_first(message: StoredMessage) -> None:
    if message.queue_offset == message.queue_id == 0:
        raise RetryLater(delay_level=-1)


def program(page: str, broker: BrokerUnderTest, place: Path) -> str:
    """Return the programs of a page as one, at the addresses and places of this test."""
    blocks = Document(page, (ROOT / page).read_text()).blocks
    text = "\n".join(
        block.text for block in blocks if block.language == "python" and NOT_RUN not in block.text
    )
    text = text.replace("127.0.0.1:9876", broker.nameserver)
    text = re.sub('"/data/(rocketmq/)?store"', repr(broker.directories[0]), text)
    text = text.replace('"/data/', f'"{place}/')
    for file in FILES:
        text = text.replace(f'"{file}"', f'"{place / file}"')
    # A stream begins at the end, and runs until it is stopped; here it reads what there is.
    text = text.replace(
        'orders.options(nameserver=nameserver, subscribe="orders")',
        'orders.options(nameserver=nameserver, subscribe="orders", startingOffsets="earliest")',
    )
    return text.replace("query.awaitTermination()", "query.processAllAvailable(); query.stop()")


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_run(
    page: str,
    spark: "SparkSession",
    broker: BrokerUnderTest,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.nameserver)
    text = program(page, broker, place)
    exec(compile(text, page, "exec"), {"spark": spark, "nameserver": broker.nameserver})
    said = capsys.readouterr().out
    check = CHECKS[page]
    assert check(broker, said), said


CHECKS: dict[str, Callable[[BrokerUnderTest, str], bool]] = {
    "docs/spark.md": lambda broker, said: (
        said.count("|  tea|") == 20  # as many as show prints
        and len(broker.messages("totals")) == len(broker.messages("copies")) == ORDERS
    ),
    "docs/pipeline/archive.md": lambda broker, said: said.startswith(f"{ORDERS} "),
    "docs/pipeline/replay.md": lambda broker, said: (
        said.startswith("8 ") and len(broker.messages("orders-again")) == 8
    ),
    "docs/pipeline/reconcile.md": lambda broker, said: said.startswith("True 0 "),
    "docs/pipeline/rebuild.md": lambda broker, said: int(said.split()[0]) > ORDERS,
    "docs/pipeline/profile.md": lambda broker, said: int(said.split()[0]) >= ORDERS,
    "docs/pipeline/trace.md": lambda broker, said: f"|billing|   {ORDERS}|" in said,
    "docs/pipeline/dead-letters.md": lambda broker, said: "|    1|" in said,
}
