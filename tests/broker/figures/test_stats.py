from orbitmq.broker.figures.stats import BrokerStats

CLUSTER = "DefaultCluster"


def sampled(stats: BrokerStats, first_s: int, last_s: int) -> None:
    for second in range(first_s, last_s + 1):
        stats.sample(second * 1_000)


def test_a_send_counts_for_topic_and_broker() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.stored("orders", 1, count=3, size=300, elapsed_ms=4, times=2)
    stats.sample(10_000)
    sums = {}
    for name, key in [
        ("TOPIC_PUT_NUMS", "orders"),
        ("TOPIC_PUT_SIZE", "orders"),
        ("TOPIC_PUT_LATENCY", "1@orders"),
        ("BROKER_PUT_NUMS", CLUSTER),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER),
    ]:
        item = stats.item(name, key)
        assert item is not None
        assert item.stats_minute is not None
        sums[name] = item.stats_minute.sum
    assert list(sums.values()) == [3, 300, 8, 3, 3]


def test_the_average_is_over_sends_not_messages() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.stored("orders", 1, count=6, size=600, elapsed_ms=4, times=2)
    stats.sample(10_000)
    item = stats.item("TOPIC_PUT_NUMS", "orders")
    assert item is not None
    assert item.stats_minute is not None
    assert item.stats_minute.avgpt == 3.0


def test_delay_levels_are_counted_by_queue_and_not_as_a_user_s() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.stored("SCHEDULE_TOPIC_XXXX", 2, count=1, size=100, elapsed_ms=0)
    stats.stored("orders", 2, count=1, size=100, elapsed_ms=0)
    assert stats.item("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2") is not None
    assert stats.item("QUEUE_PUT_NUMS", "orders@2") is None
    assert stats.info(0)["msgPutTotalTodayNow"] == "1"


def test_windows_slide() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.stored("orders", 0, count=60, size=1, elapsed_ms=0)
    sampled(stats, 1, 60)
    assert stats.topic_put_tps("orders") == 1.0
    sampled(stats, 61, 130)
    assert stats.topic_put_tps("orders") == 0.0
    item = stats.item("TOPIC_PUT_NUMS", "orders")
    assert item is not None
    assert item.stats_hour is not None
    assert item.stats_hour.sum == 0  # not noted before ten minutes are over
    stats.sample(600_000)
    item = stats.item("TOPIC_PUT_NUMS", "orders")
    assert item is not None
    assert item.stats_hour is not None
    assert item.stats_hour.sum == 60


def test_a_pull_counts_for_the_group() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.fetched("billing", "orders", 3, count=20, size=2_000, elapsed_ms=4)
    stats.missed()
    stats.sample(10_000)
    assert stats.group_get_tps("billing", "orders") == 2.0
    assert stats.info(0)["msgGetTotalTodayNow"] == "20"
    assert stats.group_get_tps("others", "orders") == 0.0
    latency = stats.item("GROUP_GET_LATENCY", "3@orders@billing")
    assert latency is not None
    assert latency.stats_minute is not None
    assert latency.stats_minute.avgpt == 4.0


def test_send_backs_are_counted() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.sent_back("billing", "orders")
    stats.dead_lettered("billing", "orders")
    assert stats.item("SNDBCK_PUT_NUMS", "orders@billing") is not None
    assert stats.item("SNDBCK2DLQ_TIMES", "null@orders@billing@SEND_BACK_TO_DLQ") is not None


def test_a_topic_that_is_deleted_leaves_no_counter() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    for topic in ("orders", "billing"):
        stats.stored(topic, 0, count=1, size=1, elapsed_ms=0)
    stats.fetched("billing", "orders", 0, 1, 1)
    stats.fetched("orders", "billing", 0, 1, 1)  # a group may have the name of a topic
    stats.forget_topic("orders")
    assert stats.item("TOPIC_PUT_NUMS", "orders") is None
    assert stats.item("TOPIC_PUT_LATENCY", "0@orders") is None
    assert stats.item("GROUP_GET_NUMS", "orders@billing") is None
    assert stats.item("GROUP_GET_LATENCY", "0@orders@billing") is None
    assert stats.item("GROUP_GET_NUMS", "billing@orders") is not None
    stats.stored("orders", 0, count=1, size=1, elapsed_ms=0)
    assert stats.item("TOPIC_PUT_NUMS", "orders") is not None


def test_a_group_that_is_deleted_leaves_no_counter() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.fetched("billing", "orders", 0, 1, 1)
    stats.dead_lettered("billing", "orders")
    stats.forget_group("billing")
    assert stats.item("GROUP_GET_SIZE", "orders@billing") is None
    assert stats.item("GROUP_GET_LATENCY", "0@orders@billing") is None
    assert stats.item("SNDBCK2DLQ_TIMES", "null@orders@billing@SEND_BACK_TO_DLQ") is None


def test_totals_of_the_mornings() -> None:
    day_ms = 86_400_000
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.stored("orders", 0, count=5, size=1, elapsed_ms=0)
    stats.sample(day_ms)
    stats.stored("orders", 0, count=2, size=1, elapsed_ms=0)
    stats.sample(2 * day_ms)
    info = stats.info(2 * day_ms)
    assert info["msgPutTotalYesterdayMorning"] == "5"
    assert info["msgPutTotalTodayMorning"] == "7"
    assert info["msgPutTotalTodayNow"] == "7"


def test_unknown_names_and_keys_have_no_counter() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    assert stats.item("TOPIC_PUT_NUMS", "orders") is None
    assert stats.item("NO_SUCH_NAME", "orders") is None


def test_what_could_not_be_stored() -> None:
    stats = BrokerStats(CLUSTER, now_ms=0)
    stats.not_stored(2)
    assert stats.info(0)["putMessageFailedTimes"] == "2"
