"""Many runs, over processes, and what they covered."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from orbitmq.testing.simulation.histories import History
from orbitmq.testing.simulation.laws import broken_laws
from orbitmq.testing.simulation.run import simulate

__all__ = ["Coverage", "Verdict", "judge", "judge_all"]

_SEEDS_PER_PROCESS: Final = 10
"""The memory of a killed server is not freed before the process ends."""


class Coverage(msgspec.Struct):
    """What happened in some runs; ``troubles`` counts the failures by kind.

    >>> one = Coverage(runs=1, acknowledged=40, troubles=Counter(cut=2))
    >>> print(one + Coverage(runs=1, acknowledged=2))
    2 runs: 42 messages acknowledged, 0 delivered to groups, 0 starts of brokers, 0 promotions
    0 runs with elections: 0 masters elected
    2 failures: cut 2
    """

    runs: int = 0
    acknowledged: int = 0
    delivered: int = 0
    starts: int = 0
    promotions: int = 0
    electing: int = 0
    elections: int = 0
    troubles: Counter[str] = msgspec.field(default_factory=Counter)

    @classmethod
    def of(cls, history: History) -> "Coverage":
        """Return the coverage of one run."""
        return cls(
            runs=1,
            acknowledged=sum(attempt.acked_at is not None for attempt in history.attempts),
            delivered=len(history.deliveries),
            starts=history.starts,
            promotions=history.promotions,
            electing=int(history.elects),
            elections=history.elections,
            troubles=Counter(one for one in history.troubles if one != "over"),
        )

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            *(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__)
        )

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.troubles.most_common())
        return (
            f"{self.runs} runs: {self.acknowledged} messages acknowledged, {self.delivered} "
            f"delivered to groups, {self.starts} starts of brokers, {self.promotions} promotions\n"
            f"{self.electing} runs with elections: {self.elections} masters elected\n"
            f"{self.troubles.total()} failures: {kinds}"
        )


class Verdict(msgspec.Struct, frozen=True):
    """What became of one seed."""

    seed: int
    broken_laws: list[str]
    coverage: Coverage
    digest: str = ""


def judge(seed: int) -> Verdict:
    """Run a seed, and return which laws were broken; a run that ends by an error breaks one."""
    try:
        history = simulate(seed)
    except Exception as error:  # the other seeds go on
        return Verdict(seed, [f"crashed: {error!r}"], Coverage(runs=1))
    return Verdict(seed, broken_laws(history), Coverage.of(history), history.digest)


def judge_all(seeds: Sequence[int], *, processes: int = 1) -> Iterator[Verdict]:
    """Yield the verdict of each seed, in their order; a process runs ten of them."""
    size = _SEEDS_PER_PROCESS
    parts = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, maxtasksperchild=1) as pool:
        for verdicts in pool.imap(_judge_part, parts, chunksize=1):
            yield from verdicts


def _judge_part(seeds: Sequence[int]) -> list[Verdict]:
    return [judge(seed) for seed in seeds]
