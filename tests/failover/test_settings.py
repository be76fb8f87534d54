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
        ({"etcd_tls_trust_cert_path": "ca.pem"}, "set etcdTlsEnable=true, or remove"),
        ({"etcd_tls_server_name": "etcd"}, "set etcdTlsEnable=true, or remove"),
        ({"etcd_tls_enable": True, "etcd_tls_key_path": "a.key"}, "give etcdTlsCertPath"),
        ({"etcd_user": "broker"}, "give etcdPasswordFile, or etcdPassword"),
        ({"etcd_password": "x"}, "give etcdUser"),
        ({"etcd_password_file": "/x"}, "give etcdUser"),
        (
            {"etcd_user": "broker", "etcd_password": "x", "etcd_password_file": "/x"},
            "etcdPassword is given as well",
        ),
        ({"lease_ms": 1_000}, "from 2000"),
        ({"lease_ms": 2_000, "beat_ms": 1_500}, "2 beats"),
    ],
)
def test_what_can_not_work_is_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        FailoverSettings(**given)  # type: ignore[arg-type]


def test_a_password_is_never_shown() -> None:
    settings = FailoverSettings(etcd_user="broker", etcd_password="open sesame")
    assert "sesame" not in repr(settings)
    given = from_arguments(["etcdPassword=open sesame"])
    with pytest.raises(InvalidSetting, match="etcdPassword: it is no user's") as failure:
        build(FailoverSettings, given, FAILOVER_NAMES)
    assert "sesame" not in str(failure.value)


def test_a_bad_text_names_its_key() -> None:
    with pytest.raises(InvalidSetting, match="etcdEndpoints"):
        build(FailoverSettings, from_arguments(["etcdEndpoints=nowhere"]), FAILOVER_NAMES)
