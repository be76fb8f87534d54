"""One broker's membership in its group: the edge between decisions and the consensus store.

::

    join ──▶ id (for ever) ──▶ lease, kept alive every second
                                 │
    a change in the group ──▶ decide ──▶ bid, claim ──▶ standing: leads, follows, neither

By its own clock a broker knows when its lease may have ended: `holds` says so without asking
anybody, also right after the process was stopped for a while. A master whose process is gone is
replaced before that, if a broker in sync finds its port closed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from orbitmq.clock import Clock
from orbitmq.errors import ConsensusFailed, InvalidInput, OrbitError
from orbitmq.failover.consensus import ABSENT, Change, ConsensusStore
from orbitmq.failover.election import (
    ClosedPort,
    Decision,
    Step,
    altered,
    decide,
    is_gone,
    next_epoch,
)
from orbitmq.failover.group import Alive, GroupKeys, GroupState, GroupView, Registered, encode
from orbitmq.failover.identity import IDENTITY_FILE, Application, Identity, IdentityFiles
from orbitmq.failover.settings import FailoverSettings
from orbitmq.randomness import Randomness

__all__ = ["LogPlace", "Member", "Standing"]

log = logging.getLogger("orbitmq.failover")

_BIDS_MS: Final = 1_000
"""How long bids are awaited of brokers that count as alive, and may be dead all the same."""
_PAUSE_S: Final = 0.5
_TEMPORARY: Final = f"{IDENTITY_FILE}-temp"


class LogPlace(NamedTuple):
    """How far a broker is: what its bid says, and where it is reached."""

    address: str
    ha_address: str
    log_epoch: int
    log_end: int
    is_learner: bool = False
    """Whether it only copies, and is never the master."""
    all_ack: bool = False
    """Whether its sends wait for all in sync, as a master."""


class Standing(NamedTuple):
    """What a broker is in its group now."""

    state: GroupState | None
    master: Alive | None = None
    """The master to follow; None if there is none, or it is this broker."""
    leads: bool = False


class Member:
    """A broker in its group; ``join`` it, then ``run`` it as a task, and ``leave`` at the end.

    ``place`` returns how far the broker is. ``on_standing`` is called with every standing that
    differs from the last.
    """

    def __init__(
        self,
        *,
        store: ConsensusStore,
        group: Identity,
        settings: Callable[[], FailoverSettings],
        files: IdentityFiles,
        clock: Clock,
        randomness: Randomness,
        place: Callable[[], LogPlace],
        on_standing: Callable[[Standing], None],
    ) -> None:
        self.store = store
        self.group = group
        self.keys = GroupKeys.of(settings().etcd_key_prefix, group.cluster, group.name)
        self.settings = settings
        self._files = files
        self._clock = clock
        self._randomness = randomness
        self._place = place
        self._on_standing = on_standing
        self.broker_id = 0
        """Its id; 0 before it has one."""
        self.standing = Standing(None)
        """What it is now."""
        self._view: GroupView | None = None
        self._lease = 0
        self._registered = 0  # the lease that this process is known to be alive by
        self._holds_until_ms = 0
        # The revision of a state without master, and since when it is seen.
        self._vacant: tuple[int, int] = (-1, 0)
        self._closed_ports: asyncio.Queue[ClosedPort] = asyncio.Queue()
        self._said = ""
        self._is_away = False  # the consensus store does not answer
        self._stopped = False

    def __repr__(self) -> str:
        return f"<Member {self.broker_id} of {self.keys.base}, {self.standing}>"

    def holds(self) -> bool:
        """Return whether it leads: by all it has heard, and for as long as its lease lasts.

        Nobody else can have been elected yet, unless a broker in sync took it for gone (`is_gone`).
        """
        state = self.standing.state
        return (
            self.standing.leads
            and state is not None
            and state.lease == self._lease
            and self._clock.monotonic_ms() < self._holds_until_ms
        )

    # Joining

    def known_id(self) -> int | None:
        """Return the id of an earlier run; raise InvalidInput if it is that of another broker."""
        text = self._files.read(IDENTITY_FILE)
        if text is None:
            return None
        identity = Identity.decode(text)
        if identity[:2] != self.group[:2]:
            raise InvalidInput(
                f"the store directory belongs to broker {identity.name} of cluster "
                f"{identity.cluster}, and the settings name {self.group.name} of "
                f"{self.group.cluster}; use another storePathRootDir, or, to let this broker join "
                f"that group with this log, remove {IDENTITY_FILE}",
                field="broker_name",
            )
        return identity.broker_id

    async def join(self) -> None:
        """Get an id, if it has none yet; raise ConsensusFailed if the store doesn't answer."""
        known = self.known_id()
        while known is None:
            known = await self._apply()
        self.broker_id = known

    async def _apply(self) -> int | None:
        """Apply for an id; return it, or None if another broker was faster."""
        view = await self._read()
        application = self._application(view)
        identity, code = application
        key = self.keys.broker(identity.broker_id)
        if identity.broker_id not in view.registered:
            registered = encode(Registered(check_code=code))
            if not await self.store.change({key: ABSENT}, [Change(key, registered)]):
                return None
        self._files.replace(IDENTITY_FILE, identity.encode())
        self._files.remove(_TEMPORARY)
        log.info("broker %s has the id %d in its group", identity.name, identity.broker_id)
        return identity.broker_id

    def _application(self, view: GroupView) -> Application:
        """Return what an earlier run applied for, if nobody else has it, or a new application."""
        text = self._files.read(_TEMPORARY)
        if text is not None:
            earlier = Application.decode(text)
            registered = view.registered.get(earlier.identity.broker_id)
            is_free = registered is None or registered.check_code == earlier.check_code
            if is_free and earlier.identity[:2] == self.group[:2]:
                return earlier
        made = Application(
            self.group._replace(broker_id=view.next_id), self._randomness.token(16).hex()
        )
        self._files.replace(_TEMPORARY, made.encode())
        return made

    # Running

    async def run(self) -> None:
        """Take part until cancelled, or until another process runs with this identity."""
        beside = [asyncio.create_task(one) for one in (self._beat(), self._watch_ports())]
        try:
            while not self._stopped:
                try:
                    await self._turn()
                except OrbitError as error:
                    self._note_away(error)
                    await asyncio.sleep(_PAUSE_S)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def port_closed(self, closed: ClosedPort) -> None:
        """Note that nothing listens where the master did; another is elected if it is gone."""
        self._closed_ports.put_nowait(closed)

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its end; call it after the run."""
        self._holds_until_ms = 0
        lease, self._lease = self._lease, 0
        try:
            if lease:
                await self.store.revoke(lease)
        except ConsensusFailed as error:
            log.warning("the lease ends by itself: %s", error)
        finally:
            await self.store.close()

    async def alter_in_sync(self, brokers: Collection[int], expected: GroupState) -> None:
        """Let the in-sync set be these brokers and itself, if the state is still ``expected``.

        Whatever comes of it, the next standing says what the state is.
        """
        view = self._view
        if view is None or view.state != expected or not self.holds():
            return
        state = altered(expected, brokers)
        key = self.keys.state
        if await self.store.change({key: view.state_revision}, [Change(key, encode(state))]):
            log.info("in sync are brokers %s; before, %s", state.in_sync, expected.in_sync)

    async def _turn(self) -> None:
        """Look, decide and act once; return when there may be something new."""
        if not self._lease:
            await self._begin_lease()
        view = await self._read()
        if self._is_away:
            self._is_away = False
            log.warning("broker %d of %s: the group can be read again", *self._who())
        own = view.alive.get(self.broker_id)
        is_seen = own is not None and self._registered == self._lease
        if self.standing.leads and not is_seen:
            log.warning("broker %d of %s does not count as alive any more", *self._who())
            self._become(Standing(view.state))  # another may have been elected
        if own is None or not is_seen:
            await self._register(view)
            return
        self._view = view
        decision = decide(
            self.broker_id,
            self._lease,
            view,
            in_time=self._in_time(view),
            unclean=self.settings().elect_unclean,
        )
        wait_s = self.settings().beat_ms / 1_000
        if decision.step is Step.STOP:
            self._stopped = True
            log.critical("%s; this one serves nothing any more, so stop it", decision.why)
        elif self._is_outdated(own, view):
            await self._register(view)
            return
        elif decision.step in (Step.BID, Step.CLAIM) and self._place().is_learner:
            decision = Decision(Step.WAIT, view.state, "it is a learner (asyncLearner)")
        elif decision.step is Step.BID:
            await self._bid(view, own)
            wait_s = 0
        elif decision.step is Step.CLAIM:
            await self._claim(view, decision)
            wait_s = 0
        self._stand(view, decision)
        if wait_s:
            await self.store.wait(self.keys.base, view.revision, min(wait_s, _BIDS_MS / 1_000))

    def _is_outdated(self, own: Alive, view: GroupView) -> bool:
        """Return whether its sign of life says what is not so any more.

        A bid is over when the master, which was taken for gone, is there: the log grows again.
        """
        epoch = 0 if view.state is None else view.state.epoch
        has_old_bid = view.master is not None and own.bid > epoch
        return has_old_bid or own.all_ack != self._place().all_ack

    def _in_time(self, view: GroupView) -> bool:
        """Return whether there is time to wait for bids."""
        now_ms = self._clock.monotonic_ms()
        if view.master is not None:
            self._vacant = (-1, 0)
        elif self._vacant[0] != view.state_revision:
            self._vacant = (view.state_revision, now_ms)
        return now_ms - self._vacant[1] < _BIDS_MS

    def _stand(self, view: GroupView, decision: Decision) -> None:
        state = view.state
        if decision.step is Step.LEAD:
            now = Standing(state, None, leads=True)
        elif decision.step is Step.FOLLOW:
            now = Standing(state, view.master)
        else:
            now = Standing(state)
            if decision.step not in (Step.CLAIM, Step.STOP):  # which are said already
                self._say(f"no master: {decision.step.value}, {decision.why}")
        if now != self.standing:
            if now.leads or now.master is not None:
                self._say("")
            self._become(now)

    def _become(self, standing: Standing) -> None:
        self.standing = standing
        self._on_standing(standing)

    def _note_away(self, error: OrbitError) -> None:
        """Log the first of several failures to read the group, or to keep the lease alive."""
        if not self._is_away:
            self._is_away = True
            what = (
                "a master refuses messages from the end of its lease until it is elected again"
                if self.standing.leads
                else "it is not elected meanwhile"
            )
            log.warning(
                "broker %d of %s: the group can't be read: %s; %s", *self._who(), error, what
            )

    def _say(self, what: str) -> None:
        """Log what goes on, once."""
        if what and what != self._said:
            log.warning("broker %d of %s: %s", *self._who(), what)
        self._said = what

    def _who(self) -> tuple[int, str]:
        return self.broker_id, self.group.name

    # What is written

    async def _begin_lease(self) -> None:
        asked_ms = self._clock.monotonic_ms()
        self._lease = await self.store.grant(self.settings().lease_s)
        self._hold_from(asked_ms)

    def _hold_from(self, asked_ms: int) -> None:
        """Note that the lease lasts from then on; a tenth is left for clocks that differ."""
        self._holds_until_ms = asked_ms + self.settings().lease_s * 900

    async def _register(self, view: GroupView) -> None:
        """Tell that this process runs; one with the same id, of before, is replaced."""
        address = self._place().address
        known = view.registered.get(self.broker_id)
        changes = [Change(self.keys.alive(self.broker_id), encode(self._alive()), self._lease)]
        if known is None or known.is_removed or known.address != address:
            known = known or Registered(check_code="")
            registered = replace(known, address=address, is_removed=False)
            changes.append(Change(self.keys.broker(self.broker_id), encode(registered)))
        lease = self._lease
        if await self.store.change({}, changes):
            self._registered = lease
        elif lease == self._lease:
            self._lease = 0  # it has ended; the next turn begins another

    def _alive(self, bid: int = 0) -> Alive:
        place = self._place()
        return Alive(
            lease=self._lease,
            address=place.address,
            ha_address=place.ha_address,
            log_epoch=place.log_epoch,
            log_end=place.log_end,
            bid=bid,
            priority=self.settings().priority,
            all_ack=place.all_ack,
        )

    async def _bid(self, view: GroupView, own: Alive) -> None:
        key = self.keys.alive(self.broker_id)
        bid = encode(self._alive(next_epoch(view)))
        await self.store.change(view.expected([key]), [Change(key, bid, own.lease)])

    async def _claim(self, view: GroupView, decision: Decision) -> None:
        assert decision.state is not None
        keys = [self.keys.state, self.keys.alive(self.broker_id)]
        if view.state is not None:
            keys.append(self.keys.alive(view.state.master))
        changes = [Change(self.keys.state, encode(decision.state))]
        if await self.store.change(view.expected(keys), changes):
            log.warning(
                "broker %d of %s is elected for epoch %d: %s",
                self.broker_id,
                self.group.name,
                decision.state.epoch,
                decision.why,
            )

    async def _watch_ports(self) -> None:
        """Take away the sign of life of each master that is gone."""
        while True:
            closed = await self._closed_ports.get()
            try:
                await self._end(closed)
            except OrbitError as error:
                log.warning(
                    "broker %d of %s: the master's lease ends by itself: %s", *self._who(), error
                )

    async def _end(self, closed: ClosedPort) -> None:
        view = await self._read()
        if view.state is None or not is_gone(self.broker_id, self._lease, view, closed):
            return
        masters = self.keys.alive(view.state.master)
        expected = view.expected([self.keys.state, self.keys.alive(self.broker_id), masters])
        if await self.store.change(expected, [Change(masters, None)]):
            log.warning(
                "broker %d of %s: the master of epoch %d is gone: nothing listens at %s any more",
                *(*self._who(), *closed),
            )

    async def _read(self) -> GroupView:
        return GroupView.of(self.keys, await self.store.read(self.keys.base))

    async def _beat(self) -> None:
        """Keep the lease alive; after it has ended, the next turn begins another."""
        while True:
            await asyncio.sleep(self.settings().beat_ms / 1_000)
            lease, asked_ms = self._lease, self._clock.monotonic_ms()
            if not lease:
                continue
            try:
                is_alive = await self.store.keep_alive(lease)
                if lease != self._lease:
                    continue
                if is_alive:
                    self._hold_from(asked_ms)
                else:
                    log.warning("the lease of broker %d has ended", self.broker_id)
                    self._lease = 0
            except ConsensusFailed as error:
                self._note_away(error)
