"""Logs made record by record, of every kind; a broker's store adds queues if it is asked to."""

import random
import zlib
from pathlib import Path

from orbitmq.message import batch, flags, properties
from orbitmq.message.host import Host
from orbitmq.message.record import Record, blank, crc_property, encode
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers

IPV4 = Host.parse("10.0.0.7:10911")
IPV6 = Host.parse("[2001:db8::7]:10911")
NOW = 1_700_000_000_000
SEGMENT = 16_384
_INNER = flags.NEED_UNWRAP | flags.INNER_BATCH


class LogMaker:
    """Writes the files of a log, each ended by a blank where the next record doesn't fit."""

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT) -> None:
        self.directory = directory
        self.starts: list[int] = []
        self._segment = segment_bytes
        self._log = bytearray()
        self._next: dict[tuple[bytes, int], int] = {}

    def add(self, body: bytes = b"1 pizza", *, messages: int = 1, **given: object) -> int:
        """Add a record; its place in log and queue is filled in. Return the place."""
        fields = {"topic": b"orders", "queue_id": 0, "born_host": IPV4, "store_host": IPV4, **given}
        queue = fields["topic"], fields["queue_id"]
        offset = self._next.get(queue, 0)  # type: ignore[arg-type]
        fields |= {"queue_offset": offset, "born_timestamp_ms": NOW + len(self.starts)}
        fields.setdefault("store_timestamp_ms", NOW + 10 * len(self.starts))
        record = Record(body=body, commit_log_offset=len(self._log), **fields)  # type: ignore[arg-type]
        encoded = encode(record)
        left = self._segment - len(self._log) % self._segment
        if len(encoded) + 8 > left:
            self._log += blank(left).ljust(left, b"\xa5")
            return self.add(body, messages=messages, **given)
        self._next[queue] = offset + messages  # type: ignore[index]
        self.starts.append(len(self._log))
        self._log += encoded
        return self.starts[-1]

    def add_sealed(self, body: bytes) -> int:
        """Add a record that ends in its checksum."""
        at = self.add(body, properties=b"TAGS\x01paid\x02" + bytes(20))
        seal = crc_property(bytes(self._log[at:-20]))
        self._log[-20:] = seal
        return at

    def write(self, *, queues: bool = False) -> str:
        """Write the files; with ``queues`` our store opens them, and makes what belongs to them."""
        folder = self.directory / "commitlog"
        folder.mkdir(parents=True)
        for base in range(0, len(self._log), self._segment):
            data = self._log[base : base + self._segment]
            (folder / f"{base:020d}").write_bytes(bytes(data).ljust(self._segment, b"\0"))
        if queues:
            settings = StoreSettings(segment_bytes=self._segment, queue_file_entries=1_000)
            store = MessageStore(str(self.directory), settings, workers=InlineWorkers())
            store.open()
            store.close()
        return str(self.directory)


def log_of_all_kinds(directory: Path, records: int, seed: int) -> LogMaker:
    """Return a log with records of every kind, mixed by chance."""
    chance, maker = random.Random(seed), LogMaker(directory)
    for _ in range(records):
        _KINDS[chance.choice(list(_KINDS))](maker, chance)
    return maker


def _text(chance: random.Random) -> bytes:
    pairs = {"KEYS": "k" * chance.randrange(30), "TAGS": chance.choice(["paid", "late"])}
    if chance.random() < 0.5:
        pairs["UNIQ_KEY"] = f"{chance.getrandbits(128):032X}"
    return properties.encode({name: value for name, value in pairs.items() if value})


def _plain(maker: LogMaker, chance: random.Random) -> None:
    body = chance.randbytes(chance.choice([0, 1, 50, 700]))
    topic = chance.choice([b"orders", b"refunds", "größer".encode(), b"%RETRY%billing"])
    maker.add(body, topic=topic, queue_id=chance.randrange(3), properties=_text(chance))


def _unended(maker: LogMaker, chance: random.Random) -> None:
    maker.add(chance.randbytes(20), properties=b"TAGS\x01paid")


def _far(maker: LogMaker, chance: random.Random) -> None:
    born, store = chance.choice([(IPV6, IPV4), (IPV4, IPV6), (IPV6, IPV6)])
    body = chance.randbytes(30)
    maker.add(body, born_host=born, store_host=store, properties=_text(chance))


def _long_topic(maker: LogMaker, chance: random.Random) -> None:
    maker.add(chance.randbytes(9), topic=b"%DLQ%" + b"t" * 200, properties=_text(chance))


def _compressed(maker: LogMaker, chance: random.Random) -> None:
    body = zlib.compress(bytes(chance.randrange(5_000)))
    maker.add(body, sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB, properties=_text(chance))


def _inner(maker: LogMaker, chance: random.Random) -> None:
    count = chance.randrange(1, 5)
    parts = [(number, chance.randbytes(9), b"TAGS\x01late\x02") for number in range(count)]
    text = properties.encode({"INNER_NUM": str(count)})
    body = batch.encode(parts)
    maker.add(body, topic=b"batches", messages=count, sys_flag=_INNER, properties=text)


def _half(maker: LogMaker, chance: random.Random) -> None:
    state = chance.choice([flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK])
    maker.add(b"half", messages=0, sys_flag=state, properties=_text(chance))


def _sealed(maker: LogMaker, chance: random.Random) -> None:
    maker.add_sealed(chance.randbytes(40))


_KINDS = {
    "plain": _plain,
    "unended": _unended,
    "far": _far,
    "long topic": _long_topic,
    "compressed": _compressed,
    "inner": _inner,
    "half": _half,
    "sealed": _sealed,
}
