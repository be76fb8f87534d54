import pytest

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.failover.settings import FAILOVER_NAMES, FailoverSettings
from orbitmq.settings import build, from_arguments


def test_java_s_names_and_ours_set_the_fields() -> None:
    given = ["enableControllerMode=true", "etcdEndpoints=10.0.0.1:2379;10.0.0.2:2379"]
    given += ["controllerHeartBeatTimeoutMills=9500", "brokerElectionPriority=3"]
    settings = build(FailoverSettings, from_arguments(given), FAILOVER_NAMES)
    assert settings.enabled
    assert [one.host for one in settings.endpoints()] == ["10.0.0.1", "10.0.0.2"]
    assert settings.lease_s == 10
    assert settings.priority == 3


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"enabled": True}, "give etcdEndpoints"),
        ({"etcd_endpoints": "10.0.0.1"}, "port 2379 unless"),
        ({"etcd_key_prefix": "orbitmq"}, "begins with a slash"),
        ({"etcd_key_prefix": "/orbitmq/"}, "not end with one"),
        ({"lease_ms": 1_000}, "from 2000"),
        ({"lease_ms": 2_000, "beat_ms": 1_500}, "2 beats"),
    ],
)
def test_what_can_not_work_is_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        FailoverSettings(**given)  # type: ignore[arg-type]


def test_a_bad_text_names_its_key() -> None:
    with pytest.raises(InvalidSetting, match="etcdEndpoints"):
        build(FailoverSettings, from_arguments(["etcdEndpoints=nowhere"]), FAILOVER_NAMES)
