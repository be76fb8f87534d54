"""Cleaning on request: CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC, DELETE_EXPIRED_COMMITLOG.

The broker deletes expired log files by itself too, by age and disk use. The first two remove what a
deleted topic may leave behind.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.tables.topics import Topics
from orbitmq.net.connection import Connection, Handler
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["CleaningHandlers"]

log = logging.getLogger("orbitmq.broker")


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class CleaningHandlers:
    """Serves requests to delete files that are not needed."""

    store: MessageStore
    topics: Topics
    stats: BrokerStats

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._expired_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self._unused_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._expired_log,
        }

    def _expired_queues(self, connection: Connection, _request: Frame) -> Response:
        removed = self.store.delete_expired_queues()
        log.info("%s removed %d queues without messages", connection.peer, len(removed))
        return Response()

    def _unused_topics(self, connection: Connection, _request: Frame) -> Response:
        removed = self.store.delete_unused_topics(self.topics.table.keys())
        for topic in removed:
            self.stats.forget_topic(topic)
        log.info("%s removed the queues of %d unused topics", connection.peer, len(removed))
        return Response()

    def _expired_log(self, connection: Connection, _request: Frame) -> Response:
        removed = self.store.clean(asked=True)
        log.info("%s removed %d files of the log", connection.peer, len(removed))
        return Response()
