"""The port of an elected primary: it sends the log by the epoch stream.

::

    the log grows ──▶ next turn of the loop: pieces to each replica ──▶ transport
    reports ──▶ in-sync set: who is a member, and what is confirmed ──▶ waiting sends
"""

import logging
from collections.abc import Callable

from orbitmq.clock import Clock
from orbitmq.net.transport.network import Network
from orbitmq.replication.epoch_feed import EpochFeed
from orbitmq.replication.epochs import EpochFile
from orbitmq.replication.feed import Feed
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.primary import ReplicaLink, ReplicaPort
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.tail import LogTail

__all__ = ["ElectedPrimary"]

log = logging.getLogger("orbitmq.replication")


class ElectedPrimary(ReplicaPort):
    """Sends the log by the epoch stream, for as long as its epoch is the newest.

    That epoch is in ``epochs`` already. What replicas have goes into ``in_sync``, which releases
    sends; learners have no part in it. Of two connections with one broker id the newer counts.
    """

    def __init__(
        self,
        *,
        tail: LogTail,
        epochs: EpochFile,
        in_sync: InSyncSet,
        settings: Callable[[], ReplicationSettings],
        clock: Clock,
        network: Network | None = None,
    ) -> None:
        super().__init__(settings=settings, clock=clock, network=network)
        self._tail = tail
        self._epochs = epochs
        self.in_sync = in_sync
        """Who has all that is confirmed."""

    def new_feed(self) -> Feed:
        """Return what a new connection sends."""
        now_ms = self.clock.monotonic_ms()
        return EpochFeed(self._tail, self._epochs, self.in_sync, self.settings, now_ms)

    def reported(self, link: ReplicaLink) -> None:
        """Note what a replica has, and end an older connection of it."""
        feed = _feed_of(link)
        for other in self._same(link):
            log.info(
                "replica %s is broker %d; %s was before", link.peer, feed.broker_id, other.peer
            )
            other.end("it has connected again")
        self.in_sync.reported(
            feed.broker_id,
            feed.acked,
            self.clock.monotonic_ms(),
            is_learner=feed.hello is not None and feed.hello.learner,
        )

    def left(self, link: ReplicaLink) -> None:
        """Note that a connection has ended; the replica is gone unless it has another."""
        was_connected = link in self._links
        super().left(link)
        if was_connected and link.feed.acked >= 0 and not self._same(link):
            self.in_sync.left(_feed_of(link).broker_id)

    def tick(self) -> None:
        """Do what is due, and let members go that have fallen behind."""
        super().tick()
        self.in_sync.tick(self.clock.monotonic_ms())

    def _same(self, link: ReplicaLink) -> list[ReplicaLink]:
        """Return the other connections of a replica that have said what they have."""
        broker_id = _feed_of(link).broker_id
        return [
            other
            for other in self._links
            if other is not link
            and other.feed.acked >= 0
            and _feed_of(other).broker_id == broker_id
        ]


def _feed_of(link: ReplicaLink) -> EpochFeed:
    assert isinstance(link.feed, EpochFeed)
    return link.feed
