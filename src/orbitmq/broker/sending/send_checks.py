"""The topic and queue of a send: the checks of Java's ``SendMessageProcessor``, in its order.

::

    not a slave ─▶ broker accepts sends by now ─▶ broker writable ─▶ topic name valid ─▶ not a
    system topic ─▶ topic known or created ─▶ message type of the topic (a setting) ─▶ queue exists
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from orbitmq.broker import remarks
from orbitmq.broker.sending import fast_fail
from orbitmq.broker.sending.message_types import check_type
from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.tables.topics import TOPICS_MAX, Topics
from orbitmq.clock import Clock
from orbitmq.message.names import FORBIDDEN_TO_SEND, is_retry_topic
from orbitmq.net.refusal import Refusal
from orbitmq.randomness import Randomness
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import READ, WRITE, ResponseCode
from orbitmq.wire.headers.send import SendMessage, SendMessageV2

__all__ = ["SendChecks", "SendHeader"]

SendHeader = SendMessage | SendMessageV2

# Topics that producers, or subscribers, in units created (``TopicSysFlag`` in Java).
_UNIT_FLAG: Final = 1
_UNIT_RETRY_FLAG: Final = 2


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class SendChecks:
    """Finds the topic and the queue of a send, and creates the topic if that is allowed."""

    settings: LiveSettings
    topics: Topics
    clock: Clock
    randomness: Randomness
    own_host: Callable[[], str]
    timer_rules: TimerRules
    """Where a message with a delivery time waits."""
    # Topics that passed all checks, with the settings of that moment.
    _passed: dict[str, TopicConfig] = field(default_factory=dict, init=False)
    _passed_under: BrokerSettings | None = field(default=None, init=False)

    def topic(self, header: SendHeader, peer: str) -> TopicConfig:
        """Return the topic of a send from ``peer``, or refuse it with the reason as the remark."""
        found = self.topics.get(header.topic)
        if (
            found is None
            or self._passed.get(header.topic) is not found
            or self.settings.broker is not self._passed_under
        ):
            found = self._check(header, peer)
        return found

    def passed(self, name: str) -> TopicConfig | None:
        """Return a topic whose sends pass all checks, whatever they are; None: check the send."""
        found = self.topics.get(name)
        if self.settings.broker is not self._passed_under or self._passed.get(name) is not found:
            return None
        return found

    def queue_id(self, asked: int, topic: TopicConfig, peer: str) -> int:
        """Return the queue of a send, or refuse it; the broker chooses for a negative number."""
        if 0 <= asked < topic.write_queue_nums:
            return asked
        write, read = topic.write_queue_nums, topic.read_queue_nums
        if asked >= max(write, read) or (asked < 0 and write <= 0):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{asked}] is illegal, {remarks.settings_of(topic)} "
                f"Producer: {peer}. The topic has {write} queues to write and {read} to read",
            )
        return asked if asked >= 0 else self.randomness.below(write)

    def _check(self, header: SendHeader, peer: str) -> TopicConfig:
        settings = self.settings.broker
        if settings.is_slave:
            raise fast_fail.slave()
        if self.clock.now_ms() < (opens_ms := settings.start_accept_send_request_time_stamp):
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {remarks.local_time(opens_ms)} "
                f"(startAcceptSendRequestTimeStamp={opens_ms}); send to another broker",
            )
        name = header.topic
        found = self.topics.get(name)
        if not settings.broker_permission & WRITE and found is not None and found.order:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.own_host()}] sending message is forbidden",
            )
        remarks.check_topic_name(name)
        if name in FORBIDDEN_TO_SEND:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        topic = found or self._create(header, peer)
        if settings.enable_topic_message_type_check:
            check_type(topic, header.properties)
        else:  # nothing depended on the message
            self._keep(topic, settings)
        return topic

    def _create(self, header: SendHeader, peer: str) -> TopicConfig:
        name, retry = header.topic, is_retry_topic(header.topic)
        flag = 0
        if header.unit_mode:
            flag = _UNIT_RETRY_FLAG if retry else _UNIT_FLAG
        created = self.topics.for_send(
            name, header.default_topic, header.default_topic_queue_nums, flag
        )
        if created is None and retry:
            created = self.topics.for_send_back(name, 1, READ | WRITE, flag)
        if created is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Create it, or let sends create it: "
                f"set autoCreateTopicEnable, and keep the default topic {header.default_topic}. "
                f"Producer: {peer}",
            )
        return created

    def _keep(self, topic: TopicConfig, settings: BrokerSettings) -> None:
        if settings is not self._passed_under or len(self._passed) >= TOPICS_MAX:
            self._passed = {}
            self._passed_under = settings
        self._passed[topic.topic_name] = topic
