from orbitmq.client.admin.results import BrokerStats, BrokerStatus, QueueProgress, Rate
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_messages_in_flight_are_pulled_and_not_consumed() -> None:
    assert QueueProgress(QUEUE, 10, 4, 6, 0).in_flight == 2
    assert QueueProgress(QUEUE, 10, 4, 0, 0).in_flight == 0  # an old broker doesn't report pulls


def test_a_counter_without_a_period_is_zero() -> None:
    minute = BrokerStatsItem(avgpt=1.5, sum=3, tps=0.05)
    stats = BrokerStats.of(BrokerStatsData(stats_minute=minute))
    assert (stats.minute, stats.hour) == (Rate(3, 0.05, 1.5), Rate(0, 0, 0))


def test_the_figures_of_a_broker_are_read_and_kept() -> None:
    figures = {
        "brokerVersionDesc": "V5_4_0",
        "bootTimestamp": "1700000000000",
        "putTps": "12.5 10.0 8.0",
        "msgPutTotalTodayNow": "50",
        "msgPutTotalTodayMorning": "20",
        "putMessageDistributeTime": "[<=0ms]:3 [0~10ms]:1 ",
        "putLatency99": "0.75",
        "commitLogDiskRatio": "a lot",
    }
    status = BrokerStatus.of(figures)
    assert (status.version, status.started_ms) == ("V5_4_0", 1_700_000_000_000)
    assert (status.put_tps, status.get_tps, status.put_today) == (12.5, 0, 30)
    assert status.put_latency == {"<=0ms": 3, "0~10ms": 1}
    assert (status.put_latency_p99_ms, status.disk_used) == (0.75, 0)
    assert status.figures == figures


def test_the_clock_of_a_broker_is_read_from_its_figures() -> None:
    ran = {"bootTimestamp": "1000", "runtime": "[ 1,000 days, 1 hours, 0 minutes, 2 seconds ]"}
    assert BrokerStatus.of(ran).now_ms == 1_000 + 1_000 * (1_000 * 86_400 + 3_600 + 2)
    back = {"bootTimestamp": "9000", "runtime": "[ -1,000 days, -1 hours, 0 minutes, -2 seconds ]"}
    assert BrokerStatus.of(back).now_ms == 9_000 - 1_000 * (1_000 * 86_400 + 3_600 + 2)
    assert BrokerStatus.of(ran | {"runtime": "a while"}).now_ms is None
    assert BrokerStatus.of({"runtime": ran["runtime"]}).now_ms is None
