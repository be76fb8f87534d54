"""Our producer on Java servers that are locked, that speak TLS, and that know ordered topics."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from cryptography.hazmat.primitives import serialization

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import NameserversFailed, SendUnauthorised
from orbitmq.message.model import Message, SendStatus
from orbitmq.message.scan import decode_all
from orbitmq.wire.auth import Credentials
from orbitmq.wire.session import Identity
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import Settings
from tests.interop.operations import DECODE_TRACE
from tests.interop.store_parties import pull_header
from tests.interop.team import Team
from tests.interop.tunnel import Tunnel
from tests.interop.waiting import until
from tests.net.conftest import Certificates

T = TypeVar("T")

TLS_HANDSHAKE = 22
"""The first byte of whoever speaks TLS."""

PATIENT_MS = 20_000
"""A machine that runs several of these at once may take its time."""

ALICE = Credentials("alice-of-sales", "open sesame")

_AUTH = "org.apache.rocketmq.auth"
LOCKED: dict[str, Settings] = {
    "5.4.0": {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": (
            f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": (
            f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
        ),
        "initAuthenticationUser": '{"username":"alice-of-sales","password":"open sesame"}',
    },
    "4.9.7": {"aclEnable": "true"},
}
"""What makes a broker ask who is there; 4.9 reads users from a file of its own."""

PLAIN_ACL = """accounts:
- accessKey: alice-of-sales
  secretKey: open sesame
  admin: true
"""


@pytest.fixture(scope="module", params=counterparts.ROCKETMQ_VERSIONS)
def locked(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
) -> Iterator[JavaCluster]:
    """Servers of each version that know one user alone, have a certificate, and tell of orders."""
    version: str = request.param
    why = counterparts.missing_for(version)
    if why is not None:
        decline(why)
    folder = tmp_path_factory.mktemp(f"locked-{version}")
    (folder / "broker" / "conf").mkdir(parents=True)
    (folder / "broker" / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    with JavaCluster(
        version,
        folder,
        broker_settings={**LOCKED[version], "authConfigPath": str(folder / "auth")},
        nameserver_settings={"orderMessageEnable": "true"},
        jvm_properties=tls_properties(certificates, folder),
        identity=Identity(credentials=ALICE),
    ) as running:
        yield running


def tls_properties(certificates: Certificates, folder: Path) -> Settings:
    """Return what makes a Java server show a certificate of ours; it wants the key in PKCS 8."""
    pem = certificates.server.read_bytes()
    key = serialization.load_pem_private_key(pem, password=None)
    key_file = folder / "server.key"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate_file = folder / "server.crt"
    certificate_file.write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    return {
        "tls.server.mode": "permissive",
        "tls.test.mode.enable": "false",
        "tls.server.keyPath": str(key_file),
        "tls.server.certPath": str(certificate_file),
    }


def producing(
    cluster: JavaCluster, use: Callable[[Producer], Awaitable[T]], **options: object
) -> T:
    """Run something with a producer of ours, who has the key unless the options say otherwise."""

    async def main() -> T:
        given: dict[str, object] = {
            "nameserver": str(cluster.nameserver.address),
            "access_key": ALICE.access_key,
            "secret_key": ALICE.secret_key,
            "send_timeout_ms": PATIENT_MS,
            **options,
        }
        async with Producer("ours", **given) as producer:  # type: ignore[arg-type]
            return await use(producer)

    return asyncio.run(main())


def test_who_has_the_key_sends(locked: JavaCluster) -> None:
    topic = locked.create_topic("locked")

    async def use(producer: Producer) -> set[SendStatus]:
        receipts = [
            await producer.send(Message(topic, b"plain", keys=["o-42"])),
            await producer.send(Message(topic, b"large" * 5_000)),
            *await producer.send_many([Message(topic, b"one"), Message(topic, b"two")]),
        ]
        assert len({receipt.message_id for receipt in receipts}) == 4
        return {receipt.status for receipt in receipts}

    assert producing(locked, use) == {SendStatus.SEND_OK}


@pytest.mark.parametrize(
    ("access_key", "secret_key"),
    [(ALICE.access_key, "wrong"), ("mallory", "open sesame"), ("", "")],
    ids=["wrong secret", "unknown", "unsigned"],
)
def test_who_has_not_is_refused_in_java_s_words(
    locked: JavaCluster, access_key: str, secret_key: str
) -> None:
    topic = locked.create_topic("locked-out")

    async def use(producer: Producer) -> SendUnauthorised:
        with pytest.raises(SendUnauthorised) as caught:
            await producer.send(Message(topic, b"x"))
        return caught.value

    error = producing(locked, use, access_key=access_key, secret_key=secret_key, retries=0)
    assert error.code == {"5.4.0": 16, "4.9.7": 1}[locked.version]
    assert error.remark
    assert not error.may_be_stored


def test_servers_are_verified(locked: JavaCluster, certificates: Certificates) -> None:
    topic = locked.create_topic("locked-tls")

    async def send(producer: Producer) -> SendStatus:
        return (await producer.send(Message(topic, b"x"))).status

    told = producing(locked, send, tls=True, tls_ca_file=str(certificates.ca))
    assert told is SendStatus.SEND_OK
    with pytest.raises(NameserversFailed) as caught:  # without our authority they are strangers
        producing(locked, send, tls=True)
    assert "certificate verify failed" in str(caught.value) + repr(caught.value.__cause__)


def test_traces_go_the_way_of_the_sends(
    request: pytest.FixtureRequest, locked: JavaCluster, certificates: Certificates
) -> None:
    java: Java = request.getfixturevalue(f"java_{locked.version.replace('.', '')}")
    topic = locked.create_topic("locked-traced")
    trace_topic = locked.create_topic("locked-traces", queues=1)

    async def use(producer: Producer) -> str:
        sent = await producer.send(Message(topic, b"x"))
        await producer.close()  # and its traces are sent
        assert producer.tracer is not None
        assert (producer.tracer.sent, producer.tracer.failed) == (1, 0)
        return sent.message_id

    with Tunnel(locked.broker.address) as tunnel:
        message_id = producing(
            locked,
            use,
            trace=True,
            trace_topic=trace_topic,
            tls=True,
            tls_ca_file=str(certificates.ca),
            address_map={str(locked.broker.address): str(tunnel.at)},
        )
    assert {said[0] for said in tunnel.heard} == {TLS_HANDSHAKE}
    with locked.broker.connect() as connection:
        pull = pull_header(trace_topic, 0, 0, "*")
        (stored,) = until(
            lambda: decode_all(connection.request(pull).body), what="the trace can be pulled"
        )
    ((record,),) = java.ask(DECODE_TRACE, [stored.body])
    assert (record.message_id, record.store_host) == (message_id, str(tunnel.at))


def test_an_ordered_topic_has_the_queues_that_its_order_names(
    request: pytest.FixtureRequest, locked: JavaCluster
) -> None:
    java: Java = request.getfixturevalue(f"java_{locked.version.replace('.', '')}")
    team = Team(java, str(locked.nameserver.address), [str(locked.broker.address)])
    topic = locked.create_topic("locked-order", queues=8)
    order = f"{locked.broker.name}:3"
    told = team.mqadmin("updateOrderConf", "-t", topic, "-v", order, "-m", "put")
    assert "update orderConf success" in told

    async def use(producer: Producer) -> set[int]:
        queues = await producer.queues(topic)
        sent = {(await producer.send(Message(topic, b"x"))).queue.queue_id for _ in range(6)}
        assert sent == {queue.queue_id for queue in queues}
        return sent

    assert producing(locked, use) == {0, 1, 2}
