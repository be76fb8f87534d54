"""The commands of RocketMQ's ``mqadmin``, and what each is here. Pure: words in, words out."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from orbitmq.errors import InvalidInput

__all__ = ["LIKES", "Flag", "Like", "words_of"]

Given: TypeAlias = Mapping[str, str]
"""The values of flags, by their letters; a flag without a value has an empty one."""
Words: TypeAlias = list[str]


class Flag(NamedTuple):
    """A flag of a command of ``mqadmin``.

    Attributes:
        letter: as in ``-t``.
        name: as in ``--topic``.
        is_needed: whether mqadmin refuses the command without it.
        has_value: whether a value follows.
        refused: why it can't be given here; empty if it can.
    """

    letter: str
    name: str
    is_needed: bool = False
    has_value: bool = True
    refused: str = ""


class Like(NamedTuple):
    """A command of ``mqadmin``, and the one here that does it."""

    name: str
    ours: str
    flags: Sequence[Flag]
    options: Callable[[Given], Words]
    """Ours, as ``--option=value``."""
    arguments: Callable[[Given], Words]
    """Ours without a name, such as a topic."""
    alone: str = ""
    """The command that it is without any flag; empty if it is the same."""


def words_of(like: Like, given: Given) -> Words:
    """Return what follows our command.

    Raises:
        InvalidInput: a value is not what mqadmin takes, or has no like here.
    """
    arguments = like.arguments(given)
    dashes = ["--"] * any(word.startswith("-") for word in arguments)
    return [*like.options(given), *dashes, *arguments]


# Values


def _perm(value: str) -> str:
    names = {"2": "w", "4": "r", "6": "rw"}
    if value not in names:
        raise _wrong("-p", value, "2 (write), 4 (read) or 6 (both)")
    return names[value]


def _is_true(flag: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _wrong(flag, value, "true or false")
    return value.lower() == "true"


def _number(flag: str, value: str) -> str:
    if not (value.isdecimal() and value.isascii() and len(value) < 19):
        raise _wrong(flag, value, "a whole number")
    return value


def _time(flag: str, value: str) -> str:
    """Return a time of mqadmin, in milliseconds or as text, as one of ours."""
    if value.isdecimal() and value.isascii() and len(value) < 15:
        return datetime.fromtimestamp(int(value) / 1000, tz=UTC).isoformat()
    try:
        return datetime.strptime(value, "%Y-%m-%d#%H:%M:%S:%f").astimezone().isoformat()
    except ValueError:
        raise _wrong(flag, value, "milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS") from None


def _wrong(flag: str, value: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"{flag} is {value[:60]!r}; it must be {wanted}", field=flag.lstrip("-"))


# Flags that many commands have

_TOPIC: Final = Flag("t", "topic", is_needed=True)
_ON: Final = (Flag("b", "brokerAddr"), Flag("c", "clusterName"))
_BROKER: Final = Flag("b", "brokerAddr", is_needed=True)
_GROUP: Final = Flag("g", "groupName", is_needed=True)
_NOT_BY_CLUSTER: Final = Flag(
    "c", "clusterName", refused="name one broker; orbitmq broker list shows all"
)
_LMQ: Final = Flag("c", "cluster", refused="topics of light queues have no route of their own here")


def _on(given: Given) -> Words:
    named = given.get("b", given.get("c"))
    return [] if named is None else [f"--on={named}"]


def _values(**options: str) -> Callable[[Given], Words]:
    """Return what makes an option of each flag, by its letter, that is given."""

    def words(given: Given) -> Words:
        return [
            f"{option}={given[letter]}" for letter, option in options.items() if letter in given
        ]

    return words


def _letters(*letters: str) -> Callable[[Given], Words]:
    """Return what makes arguments of the values of flags, as far as they are given."""
    return lambda given: [given[letter] for letter in letters if letter in given]


def _nothing(_: Given) -> Words:
    return []


# Single commands


def _update_topic(given: Given) -> Words:
    reads, writes = given.get("r", "8"), given.get("w", "8")  # 8 is mqadmin's default
    if reads != writes:
        raise InvalidInput(
            f"-r is {reads} and -w is {writes}; create the topic with one number, then change it: "
            "orbitmq topic update TOPIC --write-queues N",
            field="w",
        )
    words = [f"--queues={_number('-r', reads)}", *_on(given)]
    words += [f"--perm={_perm(given['p'])}"] if "p" in given else []
    words += ["--ordered"] if _is_true("-o", given.get("o", "false")) else []
    for one in filter(None, given.get("a", "").split(",")):
        if not one.startswith("+") or "=" not in one:
            raise _wrong("-a", one, "+name=value; orbitmq topic update --attribute name= removes")
        words.append(f"--attribute={one[1:]}")
    return words


def _update_group(given: Given) -> Words:
    switches = {"s": "consume", "m": "from-min", "d": "broadcast", "o": "ordered", "a": "notify"}
    numbers = {"q": "retry-queues", "r": "retries", "i": "broker-id", "w": "slow-broker-id"}
    words = _on(given)
    for letter, name in switches.items():
        if letter in given:
            words.append(f"--{name}" if _is_true(f"-{letter}", given[letter]) else f"--no-{name}")
    for letter, name in numbers.items():
        if letter in given:
            words.append(f"--{name}={_number(f'-{letter}', given[letter])}")
    return words


def _delete_group(given: Given) -> Words:
    return _on(given) + ["--offsets"] * _is_true("-r", given.get("r", "false"))


def _stack(given: Given) -> Words:
    client = [f"--client={given['i']}"] if "i" in given else []
    return client + ["--stack"] * ("s" in given)


def _queue(given: Given, broker: str, queue: str) -> Words:
    if (broker in given) != (queue in given):
        raise InvalidInput(
            f"-{broker} and -{queue} name a queue together; give both, or neither", field=queue
        )
    if queue not in given:
        return []
    return [f"--queue={given[broker]}/{_number(f'-{queue}', given[queue])}"]


def _by_offset(given: Given) -> Words:
    place = [f"--from={_number('-o', given['o'])}", "--count=1", "--until-caught-up", "--json"]
    return _queue(given, "b", "i") + place


def _send(given: Given) -> Words:
    return _values(k="--keys", c="--tags")(given) + _queue(given, "b", "i")


def _consume(given: Given) -> Words:
    words = _queue(given, "b", "i") + _values(g="--group")(given)
    place = f"--from={_number('-o', given['o'])}" if "o" in given else "--from=beginning"
    if "s" in given:
        place = f"--from={_time('-s', given['s'])}"
    count = _number("-c", given.get("c", "128"))  # mqadmin's default
    return [*words, place, f"--count={count}", "--until-caught-up"]


def _print(given: Given) -> Words:
    begin = _time("-b", given["b"]) if "b" in given else "beginning"
    return [*_values(s="--tags")(given), f"--from={begin}", "--until-caught-up"]


def _times(given: Given) -> Words:
    words = [f"--begin={_time('-b', given['b'])}"] if "b" in given else []
    return words + ([f"--end={_time('-e', given['e'])}"] if "e" in given else [])


def _by_key(given: Given) -> Words:
    return [*_times(given), f"--max={_number('-m', given.get('m', '64'))}"]


def _by_trace(given: Given) -> Words:
    return _values(t="--trace-topic")(given) + _times(given)


def _reset(given: Given) -> Words:
    if "o" in given:
        return [f"--to={_number('-o', given['o'])}", *_queue(given, "b", "q")]
    if "s" not in given:
        raise InvalidInput("give -s, a time, or -o, an offset", field="s")
    time = "latest" if given["s"] == "now" else _time("-s", given["s"])
    return [f"--to={time}", *_queue(given, "b", "q")]


def _clients(given: Given) -> Words:
    return [given["t"], *filter(None, given["i"].split(","))]


def _pair(given: Given) -> Words:
    return [f"{given['k']}={given['v']}"]


def _forget(given: Given) -> Words:
    ids = filter(None, given.get("b", "").split(";"))
    words = [*_values(c="--cluster")(given), *(f"--id={_number('-b', one)}" for one in ids)]
    return words + ["--living"] * ("l" in given)


_AT: Final = Flag("a", "controllerAddress", is_needed=True)
_EVERY: Final = Flag("i", "interval", refused="it is shown once; watch repeats a command")
_KEY: Final = (Flag("k", "key", is_needed=True), Flag("v", "value", is_needed=True))
_ALL_BROKERS: Final = Flag("a", "updateAllBroker", refused="slaves take what their master has")
_FORCE: Final = Flag("f", "force", refused="deprecated; it is always so")
_ID: Final = Flag("i", "msgId", is_needed=True)
_RESEND: Final = "orbitmq pipeline dead-letters and replay send messages again"
_BODY: Final = (
    Flag("c", "charsetName", refused="bodies are shown as UTF-8, or in hexadecimal"),
    Flag("d", "printBody", refused="bodies are always printed"),
    Flag("l", "lmqParentTopic", refused=_LMQ.refused),
)

_TABLE: Final = (
    Like(
        "updateTopic",
        "topic create",
        (
            _TOPIC,
            *_ON,
            Flag("r", "readQueueNums"),
            Flag("w", "writeQueueNums"),
            Flag("p", "perm"),
            Flag("o", "order"),
            Flag("a", "attributes"),
            Flag("u", "unit", refused="there are no units here"),
            Flag("s", "hasUnitSub", refused="there are no units here"),
        ),
        _update_topic,
        _letters("t"),
    ),
    Like(
        "updateTopicPerm",
        "topic update",
        (_TOPIC, *_ON, Flag("p", "perm", is_needed=True)),
        lambda given: [f"--perm={_perm(given['p'])}", *_on(given)],
        _letters("t"),
    ),
    Like(
        "deleteTopic",
        "topic delete",
        (_TOPIC, Flag("c", "clusterName")),
        _values(c="--cluster"),
        _letters("t"),
    ),
    Like(
        "topicRoute",
        "topic route",
        (_TOPIC, Flag("l", "list", has_value=False, refused="the route is always a list")),
        _nothing,
        _letters("t"),
    ),
    Like("topicStatus", "topic show", (_TOPIC, _LMQ), _nothing, _letters("t")),
    Like("topicClusterList", "topic route", (_TOPIC,), _nothing, _letters("t")),
    Like(
        "topicList",
        "topic list",
        (Flag("c", "clusterModel", has_value=False, refused="orbitmq topic stats has groups"),),
        lambda _: ["--all"],
        _nothing,
    ),
    Like(
        "statsAll",
        "topic stats",
        (Flag("t", "topic"), Flag("a", "activeTopic", has_value=False)),
        lambda given: ["--active"] * ("a" in given),
        _letters("t"),
    ),
    Like(
        "allocateMQ",
        "topic allocate",
        (_TOPIC, Flag("i", "ipList", is_needed=True)),
        _nothing,
        _clients,
    ),
    Like(
        "checkMsgSendRT",
        "topic probe",
        (_TOPIC, Flag("a", "amount"), Flag("s", "size")),
        _values(a="--count", s="--size"),
        _letters("t"),
    ),
    Like(
        "updateSubGroup",
        "group create",
        (
            _GROUP,
            *_ON,
            Flag("s", "consumeEnable"),
            Flag("m", "consumeFromMinEnable"),
            Flag("d", "consumeBroadcastEnable"),
            Flag("o", "consumeMessageOrderly"),
            Flag("q", "retryQueueNums"),
            Flag("r", "retryMaxTimes"),
            Flag("i", "brokerId"),
            Flag("w", "whichBrokerWhenConsumeSlowly"),
            Flag("a", "notifyConsumerIdsChanged"),
            Flag("p", "groupRetryPolicy", refused="delays between retries are the broker's"),
        ),
        _update_group,
        _letters("g"),
    ),
    Like(
        "deleteSubGroup",
        "group delete",
        (_GROUP, *_ON, Flag("r", "removeOffset")),
        _delete_group,
        _letters("g"),
    ),
    Like("getConsumerConfig", "group show", (_GROUP,), _nothing, _letters("g")),
    Like(
        "consumerConnection",
        "group members",
        (
            Flag("g", "consumerGroup", is_needed=True),
            Flag("b", "brokerAddr", refused="brokers of the group are asked"),
        ),
        _nothing,
        _letters("g"),
    ),
    Like(
        "consumerStatus",
        "group members",
        (
            Flag("g", "consumerGroup", is_needed=True),
            Flag("i", "clientId"),
            Flag("b", "brokerAddr", refused="brokers of the group are asked"),
            Flag("s", "jstack", has_value=False),
        ),
        _stack,
        _letters("g"),
    ),
    Like(
        "producerConnection",
        "group producers",
        (Flag("g", "producerGroup", is_needed=True), _TOPIC),
        _values(t="--topic"),
        _letters("g"),
    ),
    Like(
        "consumerProgress",
        "group progress",
        (
            _GROUP,
            Flag("t", "topicName"),
            Flag("s", "showClientIP", refused="orbitmq group members has the clients"),
            _LMQ,
        ),
        _values(t="--topic"),
        _letters("g"),
        alone="group list --lag",
    ),
    Like(
        "resetOffsetByTime",
        "offset reset",
        (
            Flag("g", "group", is_needed=True),
            _TOPIC,
            Flag("s", "timestamp"),
            Flag("b", "broker"),
            Flag("q", "queue"),
            Flag("o", "offset"),
            _FORCE,
            Flag("c", "cluster", refused="deprecated, or for topics of light queues"),
        ),
        _reset,
        _letters("g", "t"),
    ),
    Like(
        "skipAccumulatedMessage",
        "offset reset",
        (Flag("g", "group", is_needed=True), _TOPIC, _FORCE, _LMQ),
        lambda _: ["--to=latest"],
        _letters("g", "t"),
    ),
    Like(
        "cloneGroupOffset",
        "offset clone",
        (
            Flag("s", "srcGroup", is_needed=True),
            Flag("d", "destGroup", is_needed=True),
            Flag("t", "topic"),
            Flag("o", "offline", refused="it works whether consumers run or not"),
        ),
        _values(t="--topic"),
        _letters("s", "d"),
    ),
    Like(
        "queryMsgById",
        "message view",
        (
            _TOPIC,
            _ID,
            Flag("g", "consumerGroup", refused=_RESEND),
            Flag("d", "clientId", refused=_RESEND),
            Flag("s", "sendMessage", refused=_RESEND),
            Flag("u", "unitName", refused="there are no units here"),
            Flag("f", "bodyFormat", refused="bodies are shown as UTF-8, or in hexadecimal"),
            _LMQ,
        ),
        _nothing,
        _letters("t", "i"),
    ),
    Like(
        "queryMsgByUniqueKey",
        "message view",
        (
            _TOPIC,
            _ID,
            Flag("g", "consumerGroup", refused=_RESEND),
            Flag("d", "clientId", refused=_RESEND),
            Flag("a", "showAll", has_value=False, refused="orbitmq message query shows several"),
            _LMQ,
        ),
        _nothing,
        _letters("t", "i"),
    ),
    Like(
        "queryMsgByKey",
        "message query",
        (
            _TOPIC,
            Flag("k", "msgKey", is_needed=True),
            Flag("b", "beginTimestamp"),
            Flag("e", "endTimestamp"),
            Flag("m", "maxNum"),
            _LMQ,
        ),
        _by_key,
        _letters("t", "k"),
    ),
    Like(
        "queryMsgByOffset",
        "consume",
        (
            _TOPIC,
            Flag("b", "brokerName", is_needed=True),
            Flag("i", "queueId", is_needed=True),
            Flag("o", "offset", is_needed=True),
            Flag("f", "bodyFormat", refused="bodies are printed as UTF-8, or as base64"),
        ),
        _by_offset,
        _letters("t"),
    ),
    Like(
        "queryMsgTraceById",
        "trace",
        (
            _ID,
            Flag("t", "traceTopic"),
            Flag("b", "beginTimestamp"),
            Flag("e", "endTimestamp"),
            Flag("c", "maxNum", refused="all reports on the message are shown"),
        ),
        _by_trace,
        _letters("i"),
    ),
    Like(
        "printMsg",
        "consume",
        (
            _TOPIC,
            Flag("s", "subExpression"),
            Flag("b", "beginTimestamp"),
            Flag("e", "endTimestamp", refused="it ends at the last message there is"),
            *_BODY,
        ),
        _print,
        _letters("t"),
    ),
    Like(
        "sendMessage",
        "send",
        (
            _TOPIC,
            Flag("p", "body", is_needed=True),
            Flag("k", "key"),
            Flag("c", "tags"),
            Flag("b", "broker"),
            Flag("i", "qid"),
            Flag("m", "msgTraceEnable", refused="write --set enableTrace=true instead"),
        ),
        _send,
        _letters("t", "p"),
    ),
    Like(
        "consumeMessage",
        "consume",
        (
            _TOPIC,
            Flag("b", "brokerName"),
            Flag("i", "queueId"),
            Flag("o", "offset"),
            Flag("g", "consumerGroup"),
            Flag("s", "beginTimestamp"),
            Flag("e", "endTimestamp", refused="it ends at the last message there is, or at -c"),
            Flag("c", "MessageNumber"),
        ),
        _consume,
        _letters("t"),
    ),
    Like(
        "clusterList",
        "cluster nodes",
        (
            Flag("m", "moreStats", has_value=False, refused="orbitmq cluster rate has more"),
            Flag("i", "interval", refused="orbitmq cluster rate has --every"),
            Flag("c", "clusterName", refused="all clusters of the nameserver are shown"),
        ),
        _nothing,
        _nothing,
    ),
    Like(
        "brokerStatus",
        "broker status",
        (_BROKER, _NOT_BY_CLUSTER),
        lambda _: ["--all"],
        _letters("b"),
    ),
    Like(
        "getBrokerConfig", "broker config get", (_BROKER, _NOT_BY_CLUSTER), _nothing, _letters("b")
    ),
    Like("updateBrokerConfig", "broker config set", (*_KEY, *_ON, _ALL_BROKERS), _on, _pair),
    Like("cleanExpiredCQ", "broker clean queues", _ON, _on, _nothing),
    Like("cleanUnusedTopic", "broker clean topics", _ON, _on, _nothing),
    Like("deleteExpiredCommitLog", "broker clean log", _ON, _on, _nothing),
    Like(
        "wipeWritePerm",
        "broker stop-writes",
        (Flag("b", "brokerName", is_needed=True),),
        _nothing,
        _letters("b"),
    ),
    Like(
        "addWritePerm",
        "broker allow-writes",
        (Flag("b", "brokerName", is_needed=True),),
        _nothing,
        _letters("b"),
    ),
    Like(
        "haStatus",
        "broker replicas",
        (Flag("b", "brokerAddr"), _NOT_BY_CLUSTER, _EVERY),
        _nothing,
        _letters("b"),
    ),
    Like("getControllerMetaData", "broker controller", (_AT,), _nothing, _letters("a")),
    Like(
        "getSyncStateSet",
        "broker in-sync",
        (_AT, Flag("c", "clusterName"), Flag("b", "brokerName"), _EVERY),
        lambda given: [] if "b" in given else _values(c="--cluster")(given),
        _letters("a", "b"),
    ),
    Like(
        "getBrokerEpoch",
        "broker epochs",
        (Flag("c", "clusterName"), Flag("b", "brokerName"), _EVERY),
        lambda given: [] if "b" in given else _values(c="--cluster")(given),
        _letters("b"),
    ),
    Like(
        "electMaster",
        "broker elect",
        (
            _AT,
            Flag("b", "brokerId", is_needed=True),
            Flag("bn", "brokerName", is_needed=True),
            Flag("c", "clusterName", is_needed=True),
        ),
        _nothing,
        lambda given: [given["a"], given["c"], given["bn"], _number("-b", given["b"])],
    ),
    Like(
        "cleanBrokerMetadata",
        "broker forget",
        (
            _AT,
            Flag("b", "brokerControllerIdsToClean"),
            Flag("bn", "brokerName", is_needed=True),
            Flag("c", "clusterName"),
            Flag("l", "cleanLivingBroker", has_value=False),
        ),
        _forget,
        _letters("a", "bn"),
    ),
    Like("getControllerConfig", "broker election-settings", (_AT,), _nothing, _letters("a")),
    Like(
        "updateControllerConfig",
        "broker election-settings",
        (_AT, *_KEY),
        _nothing,
        lambda given: [given["a"], *_pair(given)],
    ),
    Like("getNamesrvConfig", "cluster config get", (), _nothing, _nothing),
    Like("updateNamesrvConfig", "cluster config set", _KEY, _nothing, _pair),
)

LIKES: Final[Mapping[str, Like]] = {one.name: one for one in _TABLE}
"""Every command of ``mqadmin`` that is accepted, by name."""
