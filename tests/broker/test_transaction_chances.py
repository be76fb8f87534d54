"""Random transactions with ends, checks, restarts and power losses: each ends once."""

import os
import random
from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.message.names import CHECKED_TOO_OFTEN_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.codes import ResponseCode
from tests.broker.fake_clients import Client
from tests.broker.send_world import SMALL
from tests.broker.transaction_world import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Half,
    Transactions,
    checks_of,
)

SEEDS = 1000 if os.environ.get("ORBITMQ_SOAK") == "1" else 30
STEPS = 120


class Run:
    """A run of one seed: what was asked of the broker, and what it answered."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.loses_power = bool(seed % 2)  # otherwise only the process dies
        mode = FlushMode.SYNC if self.loses_power else FlushMode.ASYNC
        self.settings: dict[str, Any] = {
            "store": replace(SMALL, flush_mode=mode, append_crc=True),
            "transaction_check_max": 10_000,
        }
        self.world = Transactions.started(**self.settings)
        self.saved = self.world.offsets.to_json()
        self.halves: dict[str, Half] = {}
        self.outcomes: dict[str, int] = {}
        self.producer: Client | None = None

    def step(self) -> None:
        self.chance.choices(
            [
                *(self.begin, self.end, self.answer, self.round, self.tick),
                *(self.come_or_go, self.save, self.restart, self.die),
            ],
            (8, 12, 6, 3, 4, 2, 2, 1, 1),
        )[0]()

    def begin(self) -> None:
        name = f"U{len(self.halves)}"
        self.halves[name] = self.world.half(name)

    def end(self) -> None:
        if self.halves:
            name = self.chance.choice(list(self.halves))
            self._end(name, self.halves[name], self.chance.choice((COMMIT, ROLLBACK)))

    def answer(self) -> None:
        if self.producer is not None and (checks := checks_of(self.producer)):
            check = self.chance.choice(checks[-6:])
            half = Half(check.tran_state_table_offset, check.commit_log_offset)
            assert check.msg_id is not None
            self._end(check.msg_id, half, self.chance.choice((COMMIT, ROLLBACK, UNKNOWN)))

    def _end(self, name: str, half: Half, decision: int) -> None:
        try:
            answer = self.world.end(half, decision)
        except Refusal:
            return
        if decision == UNKNOWN:
            return
        first = self.outcomes.setdefault(name, decision)
        expected = ResponseCode.SUCCESS if first == decision else ResponseCode.ILLEGAL_OPERATION
        assert answer.code == expected, (name, answer.remark)

    def round(self) -> None:
        self.world.round(self.chance.choice((1_000, 30_000)))

    def tick(self) -> None:
        self.world.tick(self.chance.choice((100, 3_000)))

    def come_or_go(self) -> None:
        if self.producer is None:
            self.producer = self.world.producer()
        else:
            self.world.members.drop(self.producer.connection)
            self.producer = None

    def save(self) -> None:
        self.saved = self.world.offsets.to_json()

    def restart(self) -> None:
        self._take_over(self.world.stopped_and_started(**self.settings))
        self.save()

    def die(self) -> None:
        """Begin again with the offsets of the last save."""
        disk = self.world.disk
        assert isinstance(disk, SimulatedDisk)
        if self.loses_power:
            disk.crash()
        else:
            disk.kill()
        again = Transactions(disk=disk, clock=self.world.clock, **self.settings)
        again.offsets.load_json(self.saved)
        again.halves.start()
        self._take_over(again)

    def _take_over(self, world: Transactions) -> None:
        self.world = world
        if self.producer is not None:
            self.producer = world.producer()

    def finish(self) -> None:
        """Decide the rest by checks."""
        if self.producer is not None:
            self.come_or_go()
        self.producer = producer = self.world.producer("last")
        for _ in range(4):
            self.world.round()
            for check in checks_of(producer):
                half = Half(check.tran_state_table_offset, check.commit_log_offset)
                assert check.msg_id is not None
                self._end(check.msg_id, half, COMMIT)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_transaction_ends_once(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.finish()
    committed = [name for name, decision in run.outcomes.items() if decision == COMMIT]
    delivered = [body.decode() for body in run.world.bodies()]
    assert sorted(delivered) == sorted(committed)
    assert run.outcomes.keys() == run.halves.keys()
    assert not run.world.stored(CHECKED_TOO_OFTEN_TOPIC)
    asked = len(checks_of(run.producer)) if run.producer else 0
    run.world.round()
    run.world.round()
    assert run.producer is not None
    assert len(checks_of(run.producer)) == asked
