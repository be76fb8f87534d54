"""What an operator types, on a cluster of Java's and on one of ours; and how the outputs compare.

The script is run in order, and it is all there is on either cluster. In a command ``{broker}`` is
the broker's address, ``{home}`` a directory for files; ``{ID}`` and the like are from the messages
that were sent before.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CLUSTER = "DefaultCluster"
BROKER = "broker-a"


@dataclass(frozen=True)
class Step:
    """A command line, what is masked of its output, the files that it writes, and a difference."""

    line: str
    masks: Mapping[str, str] = field(default_factory=dict)
    """Patterns → what stands for each match; beyond those of all commands."""
    files: Sequence[str] = ()
    differs: str = ""
    """Why the outputs differ; empty if they don't."""

    @property
    def command(self) -> str:
        return self.line.split()[0]


NUMBER = r"-?\d+(?:\.\d+)?(?:E-?\d+)?"

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
    Step("setConsumeMode -b {broker} -t orders -g readers -m PULL"),
    Step("setConsumeMode -c DefaultCluster -t nowhere -g readers -m PULL"),
    Step("setConsumeMode -c DefaultCluster -t %RETRY%readers -g readers -m PULL"),
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
    Step("topicList"),
    Step("topicList -c"),
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
    Step("DecodeMessageId -i {OFFSET_ID}"),
    # groups
    Step("consumerProgress -g readers"),
    Step("consumerProgress -g readers -t orders"),
    Step("consumerProgress -g nobody"),
    Step("consumerProgress"),
    Step("consumerConnection -g watchers"),
    Step("consumerConnection -g nobody"),
    Step("producerConnection -g senders -t orders"),
    Step("producer -b {broker}"),
    Step("getConsumerConfig -g readers"),
    Step("getConsumerConfig -g nobody"),
    Step("consumerStatus -g nobody"),
    Step("consumerStatus -g watchers -i {WATCHER}"),
    Step("cloneGroupOffset -s readers -d clones -t orders"),
    Step("consumerProgress -g clones"),
    Step("brokerConsumeStats -b {broker}"),
    Step("brokerConsumeStats -b {broker} -o true"),
    Step("statsAll"),
    Step("statsAll -t orders"),
    Step("statsAll -a"),
    # the cluster
    Step("clusterList"),
    Step("clusterList -m"),
    Step("brokerStatus -b {broker}"),
    Step("getBrokerConfig -b {broker}"),
    Step("getNamesrvConfig"),
    Step("haStatus -b {broker}"),
    Step("haStatus -c DefaultCluster"),
    Step("getBrokerEpoch -b broker-a"),
    Step("getBrokerEpoch -c DefaultCluster"),
    Step("resetMasterFlushOffset -b {broker} -o 0"),
    Step("exportMetadata -c DefaultCluster -f {home}", files=["metadata.json"]),
    Step("exportMetadata -b {broker} -t -f {home}", files=["topic.json"]),
    Step("exportMetadata -b {broker} -g -f {home}", files=["subscriptionGroup.json"]),
    Step("exportConfigs -c DefaultCluster -f {home}", files=["configs.json"]),
    Step("exportMetrics -c DefaultCluster -f {home}", files=["metrics.json"]),
    Step("getColdDataFlowCtrInfo -b {broker}"),
    Step("updateColdDataFlowCtrGroupConfig -b {broker} -g readers -v 1024"),
    Step("removeColdDataFlowCtrGroupConfig -b {broker} -g readers"),
    Step("setCommitLogReadAheadMode -b {broker} -m 1"),
    Step("addBroker -c {broker} -b /some/broker.conf"),
    Step("removeBroker -c {broker} -b DefaultCluster:broker-a:0"),
    Step("updateStaticTopic -c DefaultCluster -t fixed -qn 4"),
    Step("dumpCompactionLog -f {home}/no-such-file"),
    Step("rocksDBConfigToJson -c DefaultCluster -t topics"),
    Step("checkRocksdbCqWriteProgress -c DefaultCluster -t orders"),
    Step("exportPopRecord -c DefaultCluster"),
)

ENDINGS = (
    # sends by the tool itself
    Step("sendMessage -t orders -p hello -k order-9 -c TagC -b broker-a -i 1"),
    Step("sendMsgStatus -b broker-a -s 16 -c 2"),
    Step("checkMsgSendRT -t orders -a 3 -s 16"),
    Step("clusterRT -c DefaultCluster -a 2 -s 16 -i 60"),
    # offsets
    Step("resetOffsetByTime -g readers -t orders -s 0"),
    Step("resetOffsetByTime -g readers -t orders -s -1"),
    Step("resetOffsetByTime -g readers -t nowhere -s 0"),
    Step("resetOffsetByTime -g readers -t orders -s 0 -b {broker} -q 1 -o 0"),
    Step("skipAccumulatedMessage -g readers -t orders"),
    # permissions
    Step("wipeWritePerm -b broker-a"),
    Step("addWritePerm -b broker-a"),
    # removals
    Step("cleanExpiredCQ -b {broker}"),
    Step("cleanUnusedTopic -c DefaultCluster"),
    Step("deleteExpiredCommitLog -b {broker}"),
    Step("deleteSubGroup -c DefaultCluster -g others -r true"),
    Step("deleteTopic -c DefaultCluster -t bills"),
    Step("deleteTopic -c DefaultCluster -t TBW102"),
    Step("topicList"),
)

# The machine, the moment, and who asks: the same on any two clusters.
EVERYWHERE: Mapping[str, str] = {
    r"\b\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,:]\d{3})?": "TIME",
    r"\b20\d{15}\b|\b20\d{12}\b": "TIME",
    r"\b1[6-9]\d{11}\b": "MILLISECONDS",
    r"\b[0-9A-F]{32}\b": "ID",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"[\w.]+@\d+#\d+(?:#\w+)?": "CLIENT_ID",
    r"\bopaque=\d+": "opaque=N",
}


def masked(printed: str, step: Step, homes: Mapping[str, str]) -> str:
    """Return an output without what differs between any two clusters."""
    for text, name in homes.items():
        printed = printed.replace(text, name)
    for pattern, name in {**step.masks, **EVERYWHERE}.items():
        printed = re.sub(pattern, name, printed, flags=re.MULTILINE)
    return printed
