"""What operators change in groups, and what is refused to them with the reason."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.errors import InvalidInput
from orbitmq.failover.administration import Administration
from tests.failover.test_member import Broker, Group, until
from tests.failover.test_member import run as run_group


def run(story: Callable[[Group, Administration, Broker, Broker], Awaitable[None]]) -> None:
    async def main(group: Group) -> None:
        first = await group.start(1)
        await until(first.member.holds)
        second = await group.start(2)
        await first.member.alter_in_sync([2], first.state)
        await until(lambda: second.member.standing.state and second.state.in_sync == (1, 2))
        asking = Administration(group.servers.client("operator"), prefix="/orbitmq", cluster="shop")
        await story(group, asking, first, second)

    run_group(main)


def test_a_group_is_seen_and_one_that_is_not_there_has_nobody() -> None:
    async def story(_group: Group, asking: Administration, *_brokers: Broker) -> None:
        view = await asking.view("orders")
        assert view.state is not None
        assert (view.state.in_sync, sorted(view.alive)) == ((1, 2), [1, 2])
        assert (await asking.view("nobody")).state is None

    run(story)


def test_a_broker_in_sync_is_appointed_and_leads() -> None:
    async def story(_group: Group, asking: Administration, first: Broker, second: Broker) -> None:
        state = await asking.appoint("orders", 2)
        assert (state.master, state.epoch) == (2, 2)
        await until(second.member.holds)
        await until(lambda: not first.member.holds())
        for broker_id, why in ((2, "is the master"), (7, "not alive")):
            with pytest.raises(InvalidInput, match=why):
                await asking.appoint("orders", broker_id)

    run(story)


def test_a_broker_that_is_gone_is_forgotten_and_known_again_when_it_comes_back() -> None:
    async def story(group: Group, asking: Administration, first: Broker, second: Broker) -> None:
        with pytest.raises(InvalidInput, match="in sync"):
            await asking.forget("orders", [2])
        third = await group.start(3)
        await until(lambda: third.member.standing.master is not None)
        with pytest.raises(InvalidInput, match="alive"):
            await asking.forget("orders", [3])
        assert await asking.forget("orders") == []
        await third.stop()
        assert await asking.forget("orders") == [3]
        with pytest.raises(InvalidInput, match="no broker 3"):
            await asking.forget("orders", [3])
        assert (await asking.view("orders")).next_id == 4  # an id stays its own
        third = await group.start(3)
        await until(lambda: third.member.standing.master is not None)
        assert not (await asking.view("orders")).registered[3].is_removed
        assert await asking.forget("orders", [3], living=True) == [3]
        await asyncio.sleep(1)
        assert first.member.holds()
        assert second.member.standing.master is not None

    run(story)
