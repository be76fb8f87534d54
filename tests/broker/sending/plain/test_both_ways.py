"""The same traffic by either way of a send: the same files and answers, byte for byte."""

import random
from typing import Any

import msgspec
import pytest

from orbitmq.message import batch, flags, properties
from orbitmq.store.settings import FlushMode
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import HeaderEncoding
from orbitmq.wire.headers.send import SendMessage, SendMessageV2
from orbitmq.wire.session import Identity
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.sending.plain.exchange import exchange, files, frame

pytestmark = pytest.mark.usefixtures("implementation")

REQUESTS = 300
SETTINGS = {
    "async": SMALL,
    "sync": msgspec.structs.replace(SMALL, flush_mode=FlushMode.SYNC),
    "sealed": msgspec.structs.replace(SMALL, append_crc=True),
    "light queues": msgspec.structs.replace(SMALL, lmq_enabled=True, multi_dispatch_enabled=True),
    "no index": msgspec.structs.replace(SMALL, index_enabled=False),
}
VALUE_END = properties.VALUE_END
HALF_TEXTS = (
    *("DELAY\x013", "DELAY\x01odd", "TIMER_DELAY_SEC\x015", "REAL_TOPIC\x01bills", "REAL_QID\x017"),
    *("__transactionId__\x01mine", "TRAN_MSG\x01false", "TRANSACTION_CHECK_TIMES\x013"),
)
TEXTS = ("paid", "déjà", "a b", "", "x" * 300, "DELAY", "\U0001f600", "false")


class Traffic:
    """Random requests, most of them plain sends."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._number = 0

    def requests(self) -> list[bytes]:
        return [self._request(opaque) for opaque in range(REQUESTS)]

    def reads(self, requests: list[bytes]) -> list[bytes]:
        """Return the same bytes cut at random places."""
        data, reads = b"".join(requests), []
        while data:
            size = self._chance.choice((1, 7, 500, 5_000, 64 * 1024))
            reads.append(data[:size])
            data = data[size:]
        return reads

    def _request(self, opaque: int) -> bytes:
        self._number += 1
        chance = self._chance
        kind = chance.random()
        if kind < 0.75:
            return self._plain(opaque)
        unlike = [self._odd, self._batch, self._broken, self._by_name, self._binary, self._oneway]
        return chance.choice(unlike)(opaque)

    def _header(self, **fields: Any) -> SendMessageV2:
        chance = self._chance
        found = {properties.UNIQUE_KEY: f"7F0000010001{self._number:020X}"}
        if chance.random() < 0.2:
            found = {properties.UNIQUE_KEY: chance.choice(("a-b", "ü1", 'q"', "x.y:z", "a b"))}
        if chance.random() < 0.6:
            found[properties.TAGS] = chance.choice(TEXTS)
        if chance.random() < 0.5:
            found[properties.KEYS] = chance.choice(("o-1", f"o-{self._number} k", "  ", "É", "DEL"))
        if chance.random() < 0.3:
            found["mine"] = chance.choice(TEXTS)
        shuffled = dict(chance.sample(list(found.items()), len(found)))
        text = "".join([f"{name}\x01{value}\x02" for name, value in shuffled.items()])
        given = {
            "queue_id": chance.randrange(4),
            "flag": chance.choice((0, 7, -1)),
            "born_timestamp": chance.choice((1, 1_700_000_000_000)),
            "sys_flag": chance.choice((0, 0, 0, flags.COMPRESSED)),
            "reconsume_times": chance.choice((None, 0, 2)),
            **fields,
        }
        made = header(chance.choice(("orders", "bills", "multi")), **given)
        return msgspec.structs.replace(
            made, properties=text if chance.random() < 0.8 else text[:-1]
        )

    def _body(self) -> bytes:
        return self._chance.randbytes(self._chance.choice((0, 1, 100, 1_000, 40_000)))

    def _plain(self, opaque: int) -> bytes:
        made = self._header()
        if self._chance.random() < 0.3:
            made = self._half_of(made)
        return frame(made, self._body(), opaque)

    def _half_of(self, made: SendMessageV2) -> SendMessageV2:
        """Return a send as the half message of a transaction, most of them usual ones."""
        chance = self._chance
        pairs = (made.properties or "").rstrip(VALUE_END).split(VALUE_END)
        pairs.insert(chance.randrange(len(pairs) + 1), "TRAN_MSG\x01true")
        pairs.append("PGROUP\x01producers")
        if chance.random() < 0.2:
            pairs.append(chance.choice(HALF_TEXTS))
        text = VALUE_END.join(pairs) + chance.choice(("", VALUE_END))
        flag = chance.choice((0, flags.TRANSACTION_PREPARED, flags.TRANSACTION_COMMIT))
        return msgspec.structs.replace(made, properties=text, sys_flag=made.sys_flag | flag)

    def _odd(self, opaque: int) -> bytes:
        """Return a send that needs care."""
        chance, made = self._chance, self._header()
        text = made.properties or ""
        more: dict[str, Any] = chance.choice(
            (
                {"properties": text + "\x02DELAY\x013\x02"},
                {"properties": text + "\x02WAIT\x01false\x02"},
                {"properties": text + "\x02_SYS_MSG_PRIORITY_\x012\x02"},
                {"properties": text + "\x02UNIQ_KEY\x01second\x02"},
                {"properties": "KEYS\x01a\x01b\x02UNIQ_KEY\x01U\x02"},
                {"properties": "TAGS\x01no key\x02"},
                {"properties": None},
                {"properties": ""},
                {"queue_id": chance.choice((-1, 4, 99))},
                {"topic": "unknown", "default_topic": "none"},
                {"topic": "made"},
                {"topic": "%RETRY%g"},
                {"topic": "SCHEDULE_TOPIC_XXXX"},
                {"topic": "a/b"},
                {"sys_flag": flags.TRANSACTION_PREPARED},
                {"properties": "UNIQ_KEY\x01U\x02mine\x01" + "x" * 33_000 + "\x02"},
            )
        )
        return frame(msgspec.structs.replace(made, **more), self._body(), opaque)

    def _batch(self, opaque: int) -> bytes:
        parts = [(0, b"body", f"UNIQ_KEY\x01B{self._number}{n}\x02".encode()) for n in range(3)]
        body = batch.encode(parts)
        if self._chance.random() < 0.2:
            body = body[:-1]
        made = msgspec.structs.replace(self._header(), batch=True, properties="WAIT\x01true\x02")
        return frame(made, body, opaque, code=RequestCode.SEND_BATCH_MESSAGE)

    def _broken(self, opaque: int) -> bytes:
        """Return a send whose header lacks a field, or has one of a wrong type."""
        made = frame(self._header(), b"body", opaque)
        head, body = made[8:-4], made[-4:]
        before, after = self._chance.choice(
            (
                (b'"a":"producers",', b""),
                (b'"d":"4"', b'"d":"four"'),
                (b'"h":"', b'"h":"9999999999'),
                (b'"flag":0', b'"flag":4'),
            )
        )
        head = head.replace(before, after, 1)
        size = len(head)
        return (4 + size + len(body)).to_bytes(4) + size.to_bytes(4) + head + body

    def _by_name(self, opaque: int) -> bytes:
        fields = msgspec.structs.asdict(self._header())
        del fields["broker_name"]
        return frame(SendMessage(**fields), self._body(), opaque)

    def _binary(self, opaque: int) -> bytes:
        identity = Identity(encoding=HeaderEncoding.ROCKETMQ)
        return frame(self._header(), self._body(), opaque, identity=identity)

    def _oneway(self, opaque: int) -> bytes:
        return frame(self._header(), self._body(), opaque, oneway=True)


def world_of(name: str, *, plain: bool) -> SendWorld:
    world = SendWorld(SETTINGS[name])
    world.takes_plain_sends = plain
    for topic in ("orders", "bills"):
        world.create(topic)
    world.create("multi", topic_filter_type="MULTI_TAG")
    return world


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_same_files_and_answers(name: str, seed: int) -> None:
    traffic = Traffic(seed)
    reads = traffic.reads(traffic.requests())
    together, careful = world_of(name, plain=True), world_of(name, plain=False)
    taken = counted(together)
    answers = exchange(together, reads)
    assert answers == exchange(careful, reads)
    assert len(answers) > REQUESTS // 2
    assert files(together) == files(careful)
    for topic in ("orders", "bills", "multi"):
        counts = [world.open_transactions.count(topic) for world in (together, careful)]
        assert counts[0] == counts[1]
    assert bool(taken) == together.store.log.takes_records
    if taken:
        assert sum(taken) > REQUESTS // 3


def counted(world: SendWorld) -> list[int]:
    """Return a list that gets the size of each batch of plain sends."""
    sizes: list[int] = []
    put = world.inbox.put_together

    def counting(together: Any) -> None:
        sizes.append(len(together.records))
        put(together)

    world.inbox.put_together = counting  # type: ignore[method-assign]
    return sizes
