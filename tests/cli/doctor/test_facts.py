"""Facts are declared here, and judged in test_cluster_checks and test_topic_checks."""

from dataclasses import replace

from msgspec.structs import replace as changed

from tests.cli.doctor.facts_of import BROKER, NAMES, broker, facts


def test_masters_and_answering_nameservers() -> None:
    slave = broker(broker=changed(BROKER, number=1))
    first, second = facts().nameservers
    found = facts(
        nameservers=(first, replace(second, problem="refused")), brokers=(broker(), slave)
    )
    assert [one.address for one in found.answering] == [NAMES[0]]
    assert found.masters == (broker(),)
