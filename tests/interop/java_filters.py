"""SQL92 filters, carried out by RocketMQ's own classes; the Java host imports this."""

import jpype

from tests.interop.java_types import Java, java_class, to_map
from tests.interop.operations import Bloom, Sql

BloomFilter = java_class("BloomFilter")
MessageEvaluationContext = java_class("MessageEvaluationContext")
SelectorParser = java_class("SelectorParser")


def evaluate_sql(sql: Sql) -> str:
    """Evaluate an expression for each message."""
    compiled = SelectorParser.parse(sql.expression)
    return "".join(_outcome(compiled, properties) for properties in sql.messages)


def _outcome(compiled: Java, properties: dict[str, str]) -> str:
    try:
        outcome = compiled.evaluate(MessageEvaluationContext(to_map(properties)))
    except jpype.JException:
        return "E"
    return "N" if outcome is None else "FT"[bool(outcome)]


def bloom_positions(bloom: Bloom) -> list[int]:
    """Return where a bloom filter has the bits of a text, and how many bits it has."""
    bloom_filter = BloomFilter.createByFn(bloom.error_percent, bloom.expected)
    data = bloom_filter.generate(bloom.text)
    return [*map(int, data.getBitPos()), int(data.getBitNum())]
