"""What the guides say: their programs run, and the names they translate to exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import orbitmq
from orbitmq import blocking
from orbitmq.client.consumer.options import ConsumerOptions, PullConsumerOptions
from orbitmq.client.options import ClientOptions
from orbitmq.client.producer.options import ProducerOptions
from tests.architecture.documents import Document
from tests.architecture.sources import ROOT

WITH_PROGRAMS = (
    *("docs/admin.md", "docs/blocking.md", "docs/consumer.md", "docs/producer.md"),
    *("docs/deduplication.md", "docs/metrics.md", "docs/operating.md", "docs/recipes.md"),
)
TABLES = ("docs/moving/java.md", "docs/moving/kafka.md", "docs/moving/python.md")
PARAMETERS = {  # what stands beside the options: parameters of the constructors themselves
    "Producer": {*ProducerOptions.__annotations__, "transaction_listener"},
    "Consumer": {*ConsumerOptions.__annotations__, "subscribe"},
    "PullConsumer": {*PullConsumerOptions.__annotations__},
    "Admin": {*ClientOptions.__annotations__},
}


def programs(path: str) -> list[str]:
    blocks = Document(path, (ROOT / path).read_text()).blocks
    return [
        block.text
        for block in blocks
        if block.language == "python" and not re.search(">>>|# not run", block.text)
    ]


@pytest.mark.parametrize("program", [one for path in WITH_PROGRAMS for one in programs(path)])
def test_a_program_prints_what_it_says(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    said = re.findall(r"(?m)^ *print\(.*\)  # (.*)$", program)
    assert said, "a program shows what it prints behind each print"
    assert run.stdout.splitlines() == said


def codes(path: str) -> set[str]:
    """Return what stands in backticks in the second columns of the tables of a page."""
    rows = re.findall(r"(?m)^\|.*\|$", (ROOT / path).read_text().replace("\\|", "¦"))
    return {code for row in rows for code in re.findall("`([^`]*)`", row.split("|")[2])}


@pytest.mark.parametrize("path", TABLES)
def test_the_names_of_the_tables_exist(path: str) -> None:
    found = 0
    for code in codes(path):
        for kind, name in re.findall(r"\b([A-Z]\w+)\.(\w+)", code):
            assert hasattr(getattr(orbitmq, kind), name), code
            found += 1
        if call := re.match(r"([A-Z]\w+)\((.*)\)$", code):
            options = set(re.findall(r"(\w+)=", call[2]))
            if call[1] in PARAMETERS:
                assert options <= PARAMETERS[call[1]], code
                found += len(options)
        elif re.fullmatch(r"[A-Z][A-Za-z]+", code):
            assert hasattr(orbitmq, code) or hasattr(orbitmq.errors, code), code
            found += 1
    assert found > 20
    assert callable(blocking.Producer.send_later)
