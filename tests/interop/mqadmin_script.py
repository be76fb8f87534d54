"""What an operator types, on a cluster of Java's and on one of ours; and how the outputs compare.

The script is run in order, and it is all there is on either cluster. In a command ``{broker}`` is
the broker's address, ``{home}`` a directory for files, and ``{ID}`` and the like are of the
messages that were sent and the consumer that was started in between.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CLUSTER = "DefaultCluster"
BROKER = "broker-a"


@dataclass(frozen=True)
class Step:
    """A command line, and how its outputs are compared."""

    line: str
    masks: Mapping[str, str] = field(default_factory=dict)
    """Patterns → what stands for each match, beyond those of all commands."""
    files: Sequence[str] = ()
    """What it writes; compared as well."""
    table: str = ""
    """The file of the broker that it changes; what that says is compared as well."""
    sorted: bool = False
    """Whether the order of the lines is chance: Java prints a hash set."""
    differs: str = ""
    """Why the outputs differ; empty if they don't."""
    says: str = ""
    """What is in our output then."""

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.line.split()[0]


# Topics that Java's broker makes for transactions in RocksDB.
ROCKSDB_TOPICS = {r"^.*RMQ_SYS_ROCKSDB_TRANS_(?:OP_)?HALF_TOPIC.*\n": ""}
TOPIC_COUNT = {r"OK, \d+$": "OK, N"}
# Counters are sampled every ten seconds, each broker's by its own clock.
RATES = {r"( +\d+\.\d\d){1,2} +\d+ +(\d+|NO_CONSUMER)$": " RATES"}
# Java's timers are a second behind now and then.
TPS = {r"\d+\.\d+(E-?\d+)?": "TPS", r"\b\d+-\d+\(": "BEHIND("}
TOOK = {r"\brt=\d+ms": "rt=N", r"(true +)\d+$": r"\1RT", r"Avg RT: .*": "RT", r"\d+\.\d\d +2": "RT"}
# A broker's figures: how long it runs, how fast it was, and what our broker has besides.
RUNTIME = {
    r"^(\w+Tps|runtime|\w+EntireTimeMax|putLatency\d+|putMessageDistributeTime) +:.*$": r"\1",
    r"^(remainHowManyDataToFlush|\w+Ratio\S*|commitLogDirCapacity) *:.*$": r"\1",
    r"^(\w+QueueCapacity|timerReadBehind|timerOffsetBehind) *: \d+$": r"\1",
    r"^(heldPulls|getTransferedTps)\b.*\n": "",
}
OBJECTS = {
    r"@[0-9a-f]+$": "@N",
    r"^(messageListener|instanceName) +:.*$": r"\1",
    r"commitOffset=-?\d+": "commitOffset=N",  # it is committed every few seconds
    r"^(\S+ +broker-a +\d+) +-?\d+ *$": r"\1 N",
    r"\d+\.\d\d\b": "RATE",
}
NO_ROCKSDB = "RocksDB is not used; a Java broker without it answers with success"
NOT_THROTTLED = "reads of old messages are not throttled; a Java broker keeps a table all the same"

CHANGES = (
    # topics
    Step("updateTopic -c DefaultCluster -t orders -r 4 -w 4"),
    Step("updateTopic -c DefaultCluster -t bills -r 1 -w 1 -p 6"),
    Step("updateTopic -c DefaultCluster -t parcels -r 2 -w 2 -a +message.type=FIFO"),
    Step("updateTopic -c DefaultCluster -t parcels -r 2 -w 2 -a +no.such=1"),
    Step("updateTopic -b {broker} -t shipments -r 3 -w 2 -o true"),
    Step("updateTopicList -b {broker} -f {home}/topics.json"),
    Step("updateTopicPerm -c DefaultCluster -t bills -p 4"),
    Step("updateTopicPerm -c DefaultCluster -t bills -p 4"),
    Step("updateTopicPerm -c DefaultCluster -t bills -p 6"),
    Step("updateOrderConf -t orders -m put -v broker-a:4"),
    Step("updateOrderConf -t orders -m get"),
    Step("updateOrderConf -t orders -m delete"),
    Step("updateOrderConf -t orders -m get"),
    # groups
    Step("updateSubGroup -c DefaultCluster -g readers -r 7"),
    Step("updateSubGroup -b {broker} -g others -s false -q 2"),
    Step("updateSubGroupList -c DefaultCluster -f {home}/groups.json"),
    Step(
        "setConsumeMode -b {broker} -t orders -g readers -m PULL", table="messageRequestMode.json"
    ),
    Step("setConsumeMode -b {broker} -t nowhere -g readers -m PULL"),
    Step("setConsumeMode -b {broker} -t %RETRY%readers -g readers -m PULL"),
    Step(
        "setConsumeMode -b {broker} -t orders -g others -m POP -q 2",
        differs="pop consumption is not supported yet",
        says="the mode can only be PULL",
    ),
    # keys and settings
    Step("updateKvConfig -s here -k colour -v red"),
    Step("deleteKvConfig -s here -k colour"),
    Step("updateNamesrvConfig -k waitSecondsForService -v 44"),
    Step("updateBrokerConfig -b {broker} -k fileReservedTime -v 71"),
    Step("updateBrokerConfig -c DefaultCluster -k sendMessageThreadPoolNums -v 8"),
    Step("updateBrokerConfig -b {broker} -k brokerConfigPath -v /elsewhere"),
)

QUESTIONS = (
    # topics
    Step("topicList", ROCKSDB_TOPICS, sorted=True),
    Step("topicList -c", ROCKSDB_TOPICS, sorted=True),
    Step("topicRoute -t orders"),
    Step("topicRoute -t orders -l"),
    Step("topicRoute -t nowhere"),
    Step("topicStatus -t orders"),
    Step("topicStatus -t nowhere"),
    Step("topicClusterList -t orders"),
    Step("allocateMQ -t orders -i 10.0.0.1,10.0.0.2"),
    Step("queryCq -t orders -q 0 -i 0 -c 2 -b {broker}"),
    Step("queryCq -t orders -q 0 -i 0 -c 2 -b {broker} -g readers"),
    Step("queryCq -t orders -q 9 -i 0 -b {broker}"),
    # messages
    Step("queryMsgById -t orders -i {OFFSET_ID}"),
    Step("queryMsgByKey -t orders -k order-1"),
    Step("queryMsgByKey -t orders -k no-such-key"),
    Step("queryMsgByUniqueKey -t orders -i {ID}"),
    Step("queryMsgByUniqueKey -t orders -i {ID} -a"),
    Step("queryMsgByOffset -t orders -b broker-a -i 0 -o 0"),
    Step("queryMsgByOffset -t orders -b broker-a -i 0 -o 99"),
    Step("queryMsgTraceById -i {ID}"),
    Step("printMsg -t orders -d true"),
    Step("printMsg -t orders -s TagA"),
    Step("printMsgByQueue -t orders -a broker-a -i 0 -p true -d true"),
    Step("consumeMessage -t orders -b broker-a -i 0 -o 0 -c 2"),
    # groups
    Step("consumerProgress -g readers"),
    Step("consumerProgress -g readers -t orders"),
    Step("consumerProgress -g nobody"),
    Step("consumerProgress", {r"\d+( +\d+)$": r"TPS\1"}),
    Step("consumerConnection -g watchers"),
    Step("consumerConnection -g nobody"),
    Step("producerConnection -g senders -t orders"),
    Step("producer -b {broker}", sorted=True),
    Step("getConsumerConfig -g readers"),
    Step("getConsumerConfig -g nobody"),
    Step("consumerStatus -g nobody"),
    Step("consumerStatus -g watchers -i {WATCHER}", OBJECTS),
    Step("cloneGroupOffset -s readers -d clones -t orders"),
    Step("consumerProgress -g clones"),
    Step("brokerConsumeStats -b {broker}"),
    Step("brokerConsumeStats -b {broker} -o true"),
    Step("statsAll", {**ROCKSDB_TOPICS, **RATES}, sorted=True),
    Step("statsAll -t orders", RATES),
    # the cluster
    Step("clusterList", TPS),
    Step("clusterList -m", TPS),
    Step("brokerStatus -b {broker}", RUNTIME),
    Step("haStatus -b {broker}"),
    Step("haStatus -c DefaultCluster"),
    Step("getBrokerEpoch -b broker-a"),
    Step("getBrokerEpoch -c DefaultCluster"),
    Step("resetMasterFlushOffset -b {broker} -o 0"),
    Step("setCommitLogReadAheadMode -b {broker} -m 1"),
    Step("setCommitLogReadAheadMode -b {broker} -m 0"),
    Step("exportMetadata -c DefaultCluster -f {home}", files=["metadata.json"]),
    Step(
        "exportMetadata -b {broker} -t -f {home}",
        {r'"counter":\d+': "N"},
        files=["topic.json"],
    ),
    Step("exportMetadata -b {broker} -g -f {home}", files=["subscriptionGroup.json"]),
    Step("exportConfigs -c DefaultCluster -f {home}", files=["configs.json"]),
    Step(
        "exportMetrics -c DefaultCluster -f {home}",
        TPS,
        files=["metrics.json"],
        differs="there are no threads for callbacks, whose number Java shows as cpuNum",
        says="normalInTps",
    ),
    Step(
        "getBrokerConfig -b {broker}",
        differs="only keys with an effect are shown, and some of our own",
        says="listenHost",
    ),
    Step(
        "getNamesrvConfig",
        differs="only keys with an effect are shown, and some of our own",
        says="listenHost",
    ),
    # what is not here
    Step("addBroker -c {broker} -b /some/broker.conf"),
    Step("removeBroker -c {broker} -b DefaultCluster:broker-a:0"),
    Step("dumpCompactionLog -f {home}/no-such-file"),
    Step("getColdDataFlowCtrInfo -b {broker}", differs=NOT_THROTTLED, says="not throttled here"),
    Step(
        "updateColdDataFlowCtrGroupConfig -b {broker} -g readers -v 1024",
        differs=NOT_THROTTLED,
        says="not throttled here",
    ),
    Step(
        "removeColdDataFlowCtrGroupConfig -b {broker} -g readers",
        differs=NOT_THROTTLED,
        says="not throttled here",
    ),
    Step(
        "rocksDBConfigToJson -c DefaultCluster -t topics",
        differs=NO_ROCKSDB,
        says="RocksDB is not used here",
    ),
    Step(
        "checkRocksdbCqWriteProgress -c DefaultCluster -t orders",
        differs=NO_ROCKSDB,
        says="RocksDB is not used here",
    ),
    Step(
        "exportPopRecord -c DefaultCluster",
        differs="pop consumption is not supported yet",
        says="request type 200056 not supported",
    ),
)

ENDINGS = (
    # sends by the tool itself
    Step("sendMessage -t orders -p hello -k order-9 -c TagC -b broker-a -i 1"),
    Step("sendMsgStatus -b broker-a -s 16 -c 2", TOOK),
    Step("checkMsgSendRT -t orders -a 3 -s 16", TOOK),
    Step("clusterRT -c DefaultCluster -a 2 -s 16 -i 60", TOOK),
    # offsets
    Step("resetOffsetByTime -g readers -t orders -s 0"),
    Step("resetOffsetByTime -g readers -t orders -s -1"),
    Step("resetOffsetByTime -g readers -t nowhere -s 0"),
    Step("resetOffsetByTime -g readers -t orders -s 0 -b {broker} -q 1 -o 0"),
    Step("skipAccumulatedMessage -g readers -t orders"),
    # permissions
    Step("wipeWritePerm -b broker-a", TOPIC_COUNT),
    Step("addWritePerm -b broker-a", TOPIC_COUNT),
    # removals
    Step("cleanExpiredCQ -b {broker}"),
    Step("cleanUnusedTopic -c DefaultCluster"),
    Step("deleteExpiredCommitLog -b {broker}"),
    Step("deleteSubGroup -c DefaultCluster -g others -r true"),
    Step("deleteTopic -c DefaultCluster -t bills"),
    Step("deleteTopic -c DefaultCluster -t TBW102"),
    Step("topicList", ROCKSDB_TOPICS, sorted=True),
)

# The machine, the moment, and who asks: they differ between any two clusters.
EVERYWHERE: Mapping[str, str] = {
    # Before times: the number in it may look like one.
    r"[\w.:%]+@\d+#\d+(?:#\w+)?": "CLIENT_ID",
    r"\b\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,:]\d{3})?": "TIME",
    r"\b20\d{12}(?:\d{3})?\b": "TIME",
    r"\b1[6-9]\d{11}\b": "MILLISECONDS",
    r"TPS: [\d.]+(?:E-?\d+)?$": "TPS",
    r"\b(?:[0-9A-F]{56}|[0-9A-F]{32})\b": "ID",  # the longer one is of a machine with IPv6
    r"127\.0\.0\.1:\d+": "ADDRESS",
}

# What a server says when it refuses, up to the first frame of Java's trace.
REMARK = re.compile(
    r"DESC: (.*?)(?: BROKER: ADDRESS)?(?:\n(?:See|For more information, please visit).*?)?"
    r"(?=\n\tat |\Z)",
    re.DOTALL,
)


def masked(printed: str, step: Step, places: Mapping[str, str]) -> str:
    """Return an output without what differs between any two clusters."""
    for text, name in places.items():
        printed = printed.replace(text, name)
    for pattern, name in {**EVERYWHERE, **step.masks}.items():
        printed = re.sub(pattern, name, printed, flags=re.MULTILINE)
    return "\n".join(sorted(printed.splitlines())) if step.sorted else printed


def with_javas_remarks(ours: str, javas: str) -> str:
    """Return our output without the advice that follows Java's remark, where Java has a link."""
    remarks = iter(REMARK.findall(javas))

    def cut(found: re.Match[str]) -> str:
        remark = next(remarks, "")
        return "REFUSED" if found[1].startswith(remark) else found[0]

    return REMARK.sub(cut, ours)
