"""Which class of ours stands for which class of Java."""

from orbitmq.wire.bodies import (
    cluster,
    group,
    heartbeat,
    locks,
    members,
    offsets,
    pop,
    query,
    registration,
    replication,
    route,
    running,
    static_topic,
    stats,
    topic,
)
from orbitmq.wire.json.body import Body

RENAMED: dict[str, type[Body]] = {
    "BatchAckMessageRequestBody": pop.BatchAcks,
    "CheckClientRequestBody": heartbeat.SubscriptionCheck,
    "ConsumerOffsetSerializeWrapper": offsets.ConsumerOffsetTable,
    "CreateTopicListRequestBody": topic.TopicConfigList,
    "DelayOffsetSerializeWrapper": offsets.DelayOffsetTable,
    "GetBrokerMemberGroupResponseBody": cluster.BrokerMembers,
    "GetConsumerListByGroupResponseBody": group.ConsumerIdList,
    "GetConsumerStatusBody": offsets.ConsumerStatus,
    "HARuntimeInfo$HAClientRuntimeInfo": replication.HAClientRuntimeInfo,
    "HARuntimeInfo$HAConnectionRuntimeInfo": replication.HAConnectionRuntimeInfo,
    "LockBatchRequestBody": locks.LockRequest,
    "LockBatchResponseBody": locks.LockedQueues,
    "MessageQueueForC": offsets.QueueOffset,
    "MessageRequestModeSerializeWrapper": pop.RequestModeTable,
    "OffsetSerializeWrapper": offsets.LocalOffsetTable,
    "QueryAssignmentRequestBody": pop.AssignmentQuery,
    "QueryAssignmentResponseBody": pop.Assignments,
    "QueryConsumeQueueResponseBody": query.ConsumeQueueEntries,
    "QueryConsumeTimeSpanBody": stats.ConsumeTimeSpans,
    "QueryCorrectionOffsetBody": offsets.CorrectionOffsets,
    "QuerySubscriptionResponseBody": query.SubscriptionAnswer,
    "RegisterBrokerBody": registration.BrokerRegistration,
    "ResetOffsetBody": offsets.OffsetReset,
    "ResetOffsetBodyForC": offsets.OffsetResetForC,
    "SetMessageRequestModeRequestBody": pop.RequestModeSetting,
    "SubscriptionGroupWrapper": group.SubscriptionGroupTable,
    "TopicConfigAndMappingSerializeWrapper": registration.TopicConfigAndMappingTable,
    "TopicConfigSerializeWrapper": topic.TopicConfigTable,
    "TopicQueueMappingSerializeWrapper": static_topic.TopicQueueMappingTable,
    "TopicRemappingDetailWrapper": static_topic.TopicRemappingDetail,
    "UnlockBatchRequestBody": locks.UnlockRequest,
}

MODULES = (
    *(cluster, group, heartbeat, locks, members, offsets, pop, query),
    *(registration, replication, route, running, static_topic, stats, topic),
)

OURS: dict[str, type[Body]] = {
    name: declared
    for module in MODULES
    for name, declared in vars(module).items()
    if isinstance(declared, type)
    and issubclass(declared, Body)
    and declared.__module__ == module.__name__
}

BY_JAVA_NAME: dict[str, type[Body]] = {
    **{name: ours for name, ours in OURS.items() if ours not in RENAMED.values()},
    **RENAMED,
}
