"""What the ways of fault tolerance promise, held against the simulation that compares them."""

import pytest

from bench.health import ILLNESSES, Course, Report, Simulation, compare
from orbitmq.client.settings import FaultTolerance

COURSE = Course(ill_ms=5_000, cured_ms=16_500, end_ms=32_000)


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Report]]:
    return compare(COURSE)


def test_a_run_repeats_itself(reports: dict[str, dict[str, Report]]) -> None:
    again = Simulation(FaultTolerance.ADAPTIVE, ILLNESSES["flapping"], COURSE).run()
    assert again == reports["flapping"]["adaptive"]
    assert again != reports["flapping"]["java5"]


@pytest.mark.parametrize("illness", ["slow", "dead", "silent"])
def test_with_adaptive_the_share_of_an_ill_broker_shrinks_to_probes(
    illness: str, reports: dict[str, dict[str, Report]]
) -> None:
    assert reports[illness]["adaptive"].share < 0.05
    assert reports[illness]["adaptive"].share < reports[illness]["off"].share / 5


@pytest.mark.parametrize("illness", ILLNESSES)
def test_with_adaptive_a_cured_broker_is_back_in_seconds(
    illness: str, reports: dict[str, dict[str, Report]]
) -> None:
    recovery_ms = reports[illness]["adaptive"].recovery_ms
    assert recovery_ms is not None
    assert recovery_ms <= 5_000


def test_with_adaptive_what_no_other_way_notices_in_time_costs_few_sends(
    reports: dict[str, dict[str, Report]],
) -> None:
    silent = {way: report.failed for way, report in reports["silent"].items()}
    assert silent["adaptive"] < silent["java5"] / 5
    assert silent["adaptive"] < silent["java4"] / 5
    assert silent["off"] > silent["java5"]
    assert reports["silent"]["adaptive"].mean_ms < reports["silent"]["java4"].mean_ms


@pytest.mark.parametrize("illness", ["slow", "dead", "flapping"])
def test_where_brokers_answer_in_time_no_way_fails_a_send(
    illness: str, reports: dict[str, dict[str, Report]]
) -> None:
    assert {report.failed for report in reports[illness].values()} == {0}


def test_java4_does_without_a_broker_that_failed_for_ten_minutes(
    reports: dict[str, dict[str, Report]],
) -> None:
    assert reports["dead"]["java4"].recovery_ms is None


def test_java5_does_without_it_for_ten_seconds(reports: dict[str, dict[str, Report]]) -> None:
    recovery_ms = reports["dead"]["java5"].recovery_ms
    assert recovery_ms is not None
    assert 5_000 < recovery_ms <= 11_000


def test_off_does_not_learn(reports: dict[str, dict[str, Report]]) -> None:
    assert reports["slow"]["off"].share == pytest.approx(1 / 3, abs=0.01)
