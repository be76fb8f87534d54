"""The keys of Java's broker and nameserver files (5.4.0): each is served, harmless or refused.

- *served*: a setting (``broker/settings.py``, ``nameserver/settings.py``, ``net/tls_settings.py``).
- *harmless*: it tunes something that does not exist here. It is accepted and has no effect.
- *refused*: it promises safety or a behaviour that does not exist here. A server does not start
  with it, unless it has the value that turns the promise off.

Any other key is unknown, probably misspelt. A test compares the table with the Java classes.

>>> keys = ServerKeys(["brokerName"], BROKER_CLASSES)
>>> keys.reason_to_refuse(Property("aclEnable", "true", "broker.conf", 3))
'there is no access control yet, every client may do everything'
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from orbitmq.errors import InvalidSetting
from orbitmq.settings import Property, about_unknown

__all__ = ["BROKER_CLASSES", "NAMESERVER_CLASSES", "TABLE", "Kind", "Row", "ServerKeys"]

BROKER_CLASSES: Final = (
    *("BrokerConfig", "MessageStoreConfig", "AuthConfig"),
    *("NettyServerConfig", "NettyClientConfig", "Tls", "Folklore"),
)
NAMESERVER_CLASSES: Final = ("NamesrvConfig", "NettyServerConfig", "NettyClientConfig", "Tls")

# A class, then the kind of its keys and the reason, then the keys. "Tls" is TlsSystemConfig, and
# "Folklore" the keys of widely copied broker.conf files that no Java class has: Java ignores them.
_TEXT: Final = """
BrokerConfig:
  served
    namesrvAddr listenPort brokerIP1 brokerPermission defaultTopicQueueNums autoCreateTopicEnable
    clusterTopicEnable brokerTopicEnable autoCreateSubscriptionGroup msgTraceTopicName
    traceTopicEnable flushConsumerOffsetInterval sendThreadPoolQueueCapacity
    pullThreadPoolQueueCapacity longPollingEnable shortPollingTimeMills
    notifyConsumerIdsChangedEnable regionId registerBrokerTimeoutMills slaveReadEnable
    brokerFastFailureEnable waitTimeMillsInSendQueue startAcceptSendRequestTimeStamp traceOn
    registerNameServerPeriod litePullMessageEnable useServerSideResetOffset
    consumerOffsetUpdateVersionStep delayOffsetUpdateVersionStep
    validateSystemTopicWhenUpdateTopic channelExpiredTimeout enableMixedMessageType
    enableSplitMetadata splitMetadataSize configBlackList clearRetryTopicWhenDeleteTopic
    brokerName brokerClusterName brokerId serverLoadBalancerEnable
    loadBalancePollNameServerInterval storeReplyMessageEnable replyThreadPoolQueueCapacity
    enablePropertyFilter filterSupportRetry filterDataCleanTimeSpan expectConsumerNumUseFilter
    maxErrorRateOfBloomFilter recallMessageEnable allowRecallWhenBrokerNotWriteable
    rejectTransactionMessage transactionTimeOut transactionCheckMax transactionCheckInterval
    waitTimeMillsInTransactionQueue transactionOpMsgMaxSize transactionOpBatchInterval
    enableControllerMode controllerHeartBeatTimeoutMills brokerHeartbeatInterval
    brokerElectionPriority
  harmless: files are found by the command line and storePathRootDir
    brokerConfigPath rocketmqHome
  harmless: slaves connect to the host in routes
    brokerIP2
  harmless: brokers elect their master in etcd, see etcdEndpoints; there are no controllers
    controllerAddr fetchControllerAddrByDnsLookup sendHeartbeatTimeoutMillis
    syncBrokerMetadataPeriod checkSyncStateSetPeriod syncControllerMetadataPeriod
  harmless: slaves don't act as masters
    brokerNotActiveTimeoutMillis syncBrokerMemberGroupPeriod cleanOfflineBrokerInterval
    forwardTimeout skipPreOnline lockInStrictMode compatibleWithOldNameSrv
  harmless: one event loop serves all requests; there are no thread pools or queues for them
    recoverConcurrently sendMessageThreadPoolNums putMessageFutureThreadPoolNums
    pullMessageThreadPoolNums litePullMessageThreadPoolNums ackMessageThreadPoolNums
    processReplyMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
    clientManageThreadPoolNums consumerManageThreadPoolNums loadBalanceProcessorThreadPoolNums
    heartbeatThreadPoolNums recoverThreadPoolNums putThreadPoolQueueCapacity
    litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity
    queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
    consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity
    adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity waitTimeMillsInPullQueue
    waitTimeMillsInLitePullQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInAckQueue
    waitTimeMillsInAdminBrokerQueue asyncSendEnable
  harmless: ends of transactions wait with the sends
    endTransactionThreadPoolNums endTransactionPoolQueueCapacity
  harmless: written with the other tables, every flushConsumerOffsetInterval
    transactionMetricFlushInterval
  harmless: offsets of broadcasting consumers stay with the consumers
    flushConsumerOffsetHistoryInterval enableBroadcastOffsetStore broadcastOffsetExpireSecond
    broadcastOffsetExpireMaxSecond
  harmless: pulls are not throttled
    highSpeedMode transferMsgByHeap consumerFallbehindThreshold enableNetWorkFlowControl
    coldCtrStrategyEnable usePIDColdCtrStrategy cgColdReadThreshold globalColdReadThreshold
  harmless: statistics cover all topics and groups, and their size is limited
    commercialBaseCount commercialSizePerMsg accountStatsEnable accountStatsPrintZeroValues
    maxStatsIdleTimeInMinutes enableDetailStat autoDeleteUnusedStats isolateLogEnable
    useStaticSubscription subscriptionExpiredTimeout estimateAccumulation enableLmqStats
  harmless: SQL92 filters are evaluated for every message; bitmaps would only save time
    enableCalcFilterBitMap
  harmless: every registration carries all topics, and is sent on every change
    compressedRegister forceRegister updateNameServerAddrPeriod fetchNamesrvAddrInterval
    enableSingleTopicRegister enableSplitRegistration splitRegistrationSize
  harmless: pop consumption is not supported yet; its requests are refused
    popPollingSize popPollingMapSize popPollingMapExpireTimeSeconds maxPopPollingSize
    reviveQueueNum reviveInterval reviveMaxSlow reviveScanTime enableSkipLongAwaitingAck
    reviveAckWaitMs enablePopLog enablePopBufferMerge popCkStayBufferTime popCkStayBufferTimeOut
    popCkMaxBufferSize popCkOffsetMaxQueueSize enablePopBatchAck popLongPollingForceNotifyInterval
    enableNotifyBeforePopCalculateLag enableNotifyAfterPopOrderLockRelease
    initPopOffsetByCheckMsgInMem retrieveMessageFromPopRetryTopicV1 enableRetryTopicV2
    popFromRetryProbability popFromRetryProbabilityForPriority priorityOrderAsc
    popConsumerFSServiceInit popConsumerKVServiceLog popConsumerKVServiceInit
    popConsumerKVServiceEnable popReviveMaxReturnSizePerRead popReviveConcurrency
    popReviveMaxAttemptTimes useSeparateRetryQueue defaultPopShareQueueNum enablePopMetrics
    popResponseReturnActualRetryTopic popInflightMessageThreshold enablePopMessageThreshold
    skipWhenCKRePutReachMaxTimes appendAckAsync appendCkAsync
  harmless: every change of a group is noticed and notified at once
    realTimeNotifyConsumerChange enableFastChannelEventProcess printChannelGroups
    printChannelGroupsMinNum enableRegisterProducer enableCreateSysGroup
  harmless: metrics exporters are not supported yet
    metricsOtelCardinalityLimit metricsGrpcExporterTarget metricsGrpcExporterHeader
    metricGrpcExporterTimeOutInMills metricGrpcExporterIntervalInMills
    metricLoggingExporterIntervalInMills metricsPromExporterPort metricsPromExporterHost
    metricsLabel metricsInDelta enableRemotingMetrics enableMessageStoreMetrics
    enableConnectionMetrics enableTransactionMetrics enableStatsMetrics enableRequestMetrics
    enableLagAndDlqMetrics
  harmless: tables are kept in JSON files, not in RocksDB
    useSingleRocksDBForAllConfigs
  refused unless empty: stores other than the commit log are not supported, tiered storage included
    messageStorePlugIn
  refused unless false: nameservers are not looked up; list their addresses in namesrvAddr
    fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer
  refused unless false: this broker does not turn consumers away by kind or lag
    disableConsumeIfConsumerReadSlowly rejectPullConsumerEnable
  refused unless PULL: pop consumption is not supported yet
    defaultMessageRequestMode
  refused unless false: there is no access control yet, every client may do everything
    aclEnable
  refused unless false: replicas are not supported yet, so none can act for a master
    enableSlaveActingMaster enableRemoteEscape
  refused unless DISABLE: metrics exporters are not supported yet
    metricsExporterType
  refused unless v1: tables are kept in JSON files, not in RocksDB
    configManagerVersion
  refused unless false: a process runs one broker; orbitmq up --brokers starts several
    inBrokerContainer
NamesrvConfig:
  served
    kvConfigPath orderMessageEnable returnOrderTopicConfigToBroker scanNotActiveBrokerInterval
    supportActingMaster enableAllTopicList enableTopicList notifyMinBrokerIdChanged
    needWaitForService waitSecondsForService deleteTopicWithBrokerRegistration configBlackList
  harmless: files are found by the command line and kvConfigPath
    rocketmqHome configStorePath
  harmless: routes are never looked up in another environment
    productEnvName
  harmless: one event loop serves all requests; there are no thread pools or queues for them
    clientRequestThreadPoolNums defaultThreadPoolNums clientRequestThreadPoolQueueCapacity
    defaultThreadPoolQueueCapacity unRegisterBrokerQueueCapacity
  refused unless false: routes are never looked up in another environment
    clusterTest
  refused unless false: brokers elect their master in etcd; there are no controllers
    enableControllerInNamesrv
MessageStoreConfig:
  served
    storePathRootDir storePathCommitLog mappedFileSizeCommitLog mappedFileSizeConsumeQueue
    mapperFileSizeBatchConsumeQueue
    flushIntervalCommitLog diskSpaceWarningLevelRatio diskSpaceCleanForciblyRatio deleteWhen
    diskMaxUsedSpaceRatio fileReservedTime maxMessageSize flushCommitLogLeastPages
    flushCommitLogThoroughInterval flushConsumeQueueThoroughInterval
    maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInMemory
    maxTransferBytesOnMessageInDisk maxTransferCountOnMessageInDisk accessMessageInMemoryMaxRatio
    messageIndexEnable maxHashSlotNum maxIndexNum brokerRole flushDiskType syncFlushTimeout
    messageDelayLevel osPageCacheBusyTimeOutMills defaultQueryMaxNum enabledAppendPropCRC
    dataReadAheadEnable
    enableLmq enableMultiDispatch maxLmqConsumeQueueNum
    mappedFileSizeTimerLog timerPrecisionMs timerRollWindowSlot timerFlushIntervalMs
    timerMaxDelaySec timerWheelEnable timerStopEnqueue timerCongestNumEachSlot
    appendTopicForTimerDeleteKey
    haListenPort haSendHeartbeatInterval haHousekeepingInterval haTransferBatchSize haMasterAddress
    haMaxGapNotInSync slaveTimeout inSyncReplicas syncFromLastFile
    haMaxTimeSlaveNotCatchup minInSyncReplicas allAckInSyncStateSet asyncLearner
  harmless: it is always below storePathRootDir
    storePathEpochFile storePathBrokerIdentity
  harmless: DLedger is not supported
    storePathDLedgerCommitLog
    dLegerGroup dLegerPeers dLegerSelfId
    preferredLeaderId enableBatchPush enableAutoInSyncReplicas
    syncMasterFlushOffsetWhenStartup
    maxChecksumRange replicasPerDiskPartition maxSlaveResendLength
  harmless: a replica takes the log as fast as it can write, and slows its master down else
    haFlowControlEnable maxHaTransferByteInSecond
  harmless: a slave corrects no offsets of groups, as with false
    offsetCheckInSlave
  harmless: compacted topics are not supported
    compactionMappedFileSize compactionCqMappedFileSize compactionScheduleInternal
    maxOffsetMapSize compactionThreadNum enableCompaction
  harmless: messages with a delivery time are taken in and delivered by the event loop
    timerGetMessageThreadNum timerPutMessageThreadNum timerColdDataCheckIntervalMs
    timerProgressLogIntervalMs
  harmless: a delivery that fails is retried until it succeeds
    timerSkipUnknownError timerEnableRetryUntilSuccess
  harmless: the number of waiting messages by topic is counted exactly, and again at a start
    timerEnableCheckMetrics timerMetricSmallThreshold
  harmless: the timer wheel is saved page by page
    timerWheelSnapshotFlush timerWheelSnapshotIntervalMs
  harmless: Java does not use it either
    timerInterceptDelayLevel
  harmless: a start always reads and checks what the checkpoint does not cover
    disappearTimeAfterStart commitLogRecoverMaxNum maxRecoveryCommitlogFiles checkCRCOnRecover
    enableAcceleratedRecovery enableLogConsumeQueueRepeatedlyBuildWhenRecover
  harmless: RocksDB is not used
    timerRecallToTimeWheelEnable timerRecallToTimelineEnable
    timerRocksDBEnable timerRocksDBStopScan timerRocksDBPrecisionMs timerRocksDBRollMaxTps
    timerRocksDBTimeExpiredMaxTps timerRocksDBRollIntervalHours timerRocksDBRollRangeHours
    transRocksDBEnable transWriteOriginTransHalfEnable maxRocksDBIndexQueryDays
    cleanRocksDBDirtyCQIntervalMin statRocksDBCQIntervalSec memTableFlushIntervalMs
    realTimePersistRocksDBConfig enableRocksDBLog combineCQLoadingCQTypes combineCQPreferCQType
    combineAssignOffsetCQType combineCQEnableCheckSelf combineCQMaxExtraSearchCommitLogFiles
    bottomMostCompressionTypeForConsumeQueueStore rocksdbCompressionType rocksdbFlushWalFrequency
    rocksdbWalFileRollingThreshold
  harmless: consume queues and the index are written by the same thread, right after the log
    indexFileWriteEnable indexFileReadEnable putMsgIndexHightWater messageIndexSafe
    duplicationEnable dispatchCqThreads dispatchCqCacheNum enableAsyncReput
    recheckReputOffsetFromCq dispatchFromSenderThread enableBuildConsumeQueueConcurrently
    batchDispatchRequestThreadPoolNums putConsumeQueueDataByFileChannel
  harmless: queue extensions are not written
    enableConsumeQueueExt mappedFileSizeConsumeQueueExt bitMapLengthConsumeQueueExt
  harmless: batch queues are searched without a cache
    searchBcqByCacheEnable
  harmless: messages are written to the file at once, without a buffer in between
    commitIntervalCommitLog flushCommitLogTimed commitCommitLogLeastPages
    commitCommitLogThoroughInterval putMessageTimeout transientStorePoolEnable
    transientStorePoolSize fastFailIfNoBufferInStorePool writeWithoutMmap wakeCommitWhenPutMessage
    wakeFlushWhenPutMessage maxAsyncPutMessageRequests readUnCommitted sharedByteBufferNum
  harmless: one thread writes, so there are no locks
    useReentrantLockWhenPutMessage debugLockEnable topicQueueLockNum
    spinLockCollisionRetreatOptimalDegree useABSLock
  harmless: consume queues are flushed with the checkpoint
    flushIntervalConsumeQueue flushConsumeQueueLeastPages flushDelayOffsetInterval
    enableRunningFlagsInFlush
  harmless: expired files are deleted a few at a time by a worker
    cleanResourceInterval deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval
    redeleteHangedFileInterval deleteFileBatchMax maxBatchDeleteFilesNum
    correctLogicMinOffsetSleepInterval correctLogicMinOffsetForceInterval enableCleanExpiredOffset
    logicalDiskSpaceCleanForciblyThreshold
  harmless: files are not mapped into memory
    destroyMapedFileIntervalForcibly flushLeastPagesWhenWarmMapedFile warmMapedFileEnable
    mappedFileSwapEnable commitLogForceSwapMapInterval commitLogSwapMapInterval
    commitLogSwapMapReserveFileNum logicQueueForceSwapMapInterval logicQueueSwapMapInterval
    cleanSwapedMapInterval logicQueueSwapMapReserveFileNum coldDataFlowControlEnable
    coldDataScanEnable accessMessageInMemoryHotRatio
  harmless: the limits of a pull are the maxTransfer keys
    maxFilterMessageSize maxMsgsNumBatch diskFallRecorded travelCqFileNumWhenGetMessage
    pullBatchMaxMessageCount maxConsumeQueueScan sampleCountThreshold sampleSteps
  harmless: delay levels are delivered in order, in batches
    enableScheduleMessageStats enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
    scheduleAsyncDeliverMaxResendNum2Blocked
  harmless: topic names have up to 127 characters, as in Java
    maxTopicLength autoMessageVersionOnTopicLen
  refused unless empty: the commit log is in one directory; move all its files there
    readOnlyCommitLogStorePaths
  refused unless false: the key index is kept in files, not in RocksDB
    indexRocksDBEnable
  refused unless default: consume queues are kept in files, not in RocksDB
    storeType
  refused unless true: a disk over diskSpaceCleanForciblyRatio loses its oldest files
    cleanFileForciblyEnable
  refused unless false: replication by DLedger is not supported
    enableDLegerCommitLog
  refused unless false: a start verifies record checksums only where enabledAppendPropCRC wrote them
    forceVerifyPropCRC
  refused unless 1: how many replicas there are follows from who connects; use inSyncReplicas
    totalReplicas
  refused unless false: consume queues are kept in files, not in RocksDB
    rocksdbCQDoubleWriteEnable
NettyServerConfig:
  served
    bindAddress listenPort serverChannelMaxIdleTimeSeconds
  harmless: one event loop serves all requests; there are no thread pools or queues for them
    serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
    serverNettyWorkerGroupEnable useEpollNativeSelector
  harmless: servingMax limits the requests of a connection
    serverOnewaySemaphoreValue serverAsyncSemaphoreValue
  harmless: the operating system sizes socket buffers, and unsentBytesMax limits what waits
    serverSocketSndBufSize serverSocketRcvBufSize writeBufferHighWaterMark writeBufferLowWaterMark
    serverSocketBacklog serverPooledByteBufAllocatorEnable
  harmless: a stop always answers what is in flight, for up to closeTimeoutMs
    enableShutdownGracefully shutdownWaitTimeSeconds
NettyClientConfig:
  served
    connectTimeoutMillis useTLS
  harmless: one event loop serves all requests; there are no thread pools or queues for them
    clientWorkerThreads clientCallbackExecutorThreads disableCallbackExecutor
    disableNettyWorkerGroup
  harmless: inFlightMax limits the requests of a connection
    clientOnewaySemaphoreValue clientAsyncSemaphoreValue
  harmless: a server's few outgoing connections are closed when idle or silent, and made again
    channelNotActiveInterval scanAvailableNameSrv clientChannelMaxIdleTimeSeconds
    clientCloseSocketIfTimeout maxReconnectIntervalTimeSeconds enableReconnectForGoAway
  harmless: the operating system sizes socket buffers, and unsentBytesMax limits what waits
    clientSocketSndBufSize clientSocketRcvBufSize clientPooledByteBufAllocatorEnable
    writeBufferHighWaterMark writeBufferLowWaterMark
  refused unless {}: connections are never made through a proxy
    socksProxyConfig
AuthConfig:
  harmless: there is no access control yet, and enabling it is refused
    configName clusterName authConfigPath authenticationProvider authenticationMetadataProvider
    authenticationStrategy authenticationWhitelist initAuthenticationUser
    innerClientAuthenticationCredentials authorizationProvider authorizationMetadataProvider
    authorizationStrategy authorizationWhitelist migrateAuthFromV1Enabled userCacheMaxNum
    userCacheExpiredSecond userCacheRefreshSecond aclCacheMaxNum aclCacheExpiredSecond
    aclCacheRefreshSecond statefulAuthenticationCacheMaxNum
    statefulAuthenticationCacheExpiredSecond statefulAuthorizationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond
  refused unless false: there is no access control yet, every client may do everything
    authenticationEnabled authorizationEnabled
Tls:
  served
    tls.server.mode tls.server.keyPath tls.server.keyPassword tls.server.certPath
    tls.server.trustCertPath tls.server.authClient tls.server.need.client.auth tls.enable
    tls.client.keyPath tls.client.keyPassword tls.client.certPath tls.client.trustCertPath
    tls.client.authServer tls.config.file tls.test.mode.enable
  refused unless empty: TLS 1.2 and 1.3 are offered, with the ciphers of the Python installation
    tls.ciphers tls.protocols
Folklore:
  harmless: it is always below storePathRootDir, in Java too
    storePathConsumeQueue storePathIndex storeCheckpoint abortFile
"""


_DEFAULT: Final = "this server keeps the default"


class Kind(Enum):
    """How a key is treated."""

    SERVED = "served"
    HARMLESS = "harmless"
    REFUSED = "refused"


class Row(NamedTuple):
    """A key of a Java class."""

    java_class: str
    kind: Kind
    why: str
    unless: str
    """The value with which a refused key is harmless."""


def _rows() -> Iterator[tuple[str, Row]]:
    row = Row("", Kind.SERVED, "", "")
    for line in _TEXT.strip().splitlines():
        if not line.startswith(" "):
            row = Row(line.removesuffix(":"), Kind.SERVED, "", "")
        elif line.startswith("    "):
            yield from ((key, row) for key in line.split())
        else:
            head, _, why = line.strip().partition(": ")
            kind, _, unless = head.partition(" unless ")
            row = Row(row.java_class, Kind(kind), why, "" if unless == "empty" else unless)


TABLE: Final[Sequence[tuple[str, Row]]] = tuple(_rows())
"""All keys; one that two Java classes have is here twice."""


class ServerKeys:
    """The treatment of all keys in the file of one server; ``served`` are its settings."""

    def __init__(self, served: Iterable[str], java_classes: Iterable[str]) -> None:
        self._served = frozenset(served)
        classes = frozenset(java_classes)
        self._others: dict[str, Row] = {
            key: row if row.why else row._replace(kind=Kind.HARMLESS, why=_DEFAULT)
            for key, row in TABLE
            if row.java_class in classes and key not in self._served
        }

    def reason_to_refuse(self, one: Property) -> str | None:
        """Return why a server can't start with this property; None if it can."""
        row = self._others.get(one.name)
        if row is None or row.kind is not Kind.REFUSED:
            return None
        return None if one.value.strip().lower() in ("", row.unless.lower()) else row.why

    def check(self, properties: Iterable[Property]) -> None:
        """Raise `InvalidSetting` for the first property that a server can't start with."""
        for one in properties:
            if (why := self.reason_to_refuse(one)) is not None:
                raise InvalidSetting(
                    f"{one}={one.value.strip()}: {why}; remove the key to run without it",
                    file=one.file,
                    line=one.line,
                    field=one.name,
                )

    def is_harmless(self, one: Property) -> bool:
        """Return whether a property is accepted without an effect."""
        return one.name in self._others and self.reason_to_refuse(one) is None

    def notes(self, properties: Iterable[Property]) -> list[str]:
        """Return a sentence for each reason why some of the properties have no effect."""
        by_reason: dict[str, list[str]] = {}
        for one in properties:
            row = self._others.get(one.name)
            if row is not None and row.kind is Kind.HARMLESS:
                by_reason.setdefault(row.why, []).append(one.name)
        return [f"no effect: {', '.join(names)}: {why}" for why, names in by_reason.items()]

    def unknown(self, properties: Iterable[Property]) -> list[str]:
        """Return a warning for each property that is in no part of the table."""
        known = self._served | self._others.keys()
        return [about_unknown(one, known) for one in properties if one.name not in known]
