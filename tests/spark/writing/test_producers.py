import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from orbitmq import embedded
from orbitmq.blocking import Producer
from orbitmq.client.life import ClientState
from orbitmq.message.model import Message
from orbitmq.spark.options.options import Access, WriteOptions, write_options
from orbitmq.spark.writing import producers
from orbitmq.spark.writing.producers import close_producers, producer_for


@pytest.fixture
def options() -> Iterator[WriteOptions]:
    with embedded.start() as cluster:
        yield write_options({"nameserver": cluster.nameserver, "topic": "orders", "retries": "3"})
        close_producers()


def test_writes_of_a_process_share_a_producer(options: WriteOptions) -> None:
    first = producer_for(options)
    first.send(Message("orders", b"paid"))
    assert producer_for(msgspec.structs.replace(options, topic="bills", batch_bytes=9)) is first
    assert (first.settings.retries, first.settings.retry_same_queue) == (3, True)
    close_producers()
    assert first.state is ClientState.CLOSED
    assert producer_for(options) is not first


def test_other_settings_take_another_one_in_its_place(options: WriteOptions) -> None:
    first = producer_for(options)
    second = producer_for(msgspec.structs.replace(options, send_timeout_ms=9_000))
    assert second.settings.send_timeout_ms == 9_000
    assert first.state is ClientState.CLOSED
    second.send(Message("orders", b"paid"))


def test_all_that_options_say_reaches_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unstarted(Producer):
        def start(self) -> None:
            """Send no request: the servers and files don't exist."""

    monkeypatch.setattr(producers, "Producer", Unstarted)
    said = {
        "nameserver": "ns-1:9876;ns-2:9876",
        "namespace": "shop",
        "accessKey": "alice",
        "secretKey": "open sesame",
        "securityToken": "for a day",
        "tls": "true",
        "tlsVerify": "false",
        "tlsCaFile": "/etc/ca.pem",
        "tlsCertFile": "/etc/cert.pem",
        "tlsKeyFile": "/etc/key.pem",
        "tlsKeyPassword": "key's own",
        "addressMap": '{"172.17.0.3": "127.0.0.1"}',
        "requestTimeoutMs": "4321",
        "groupId": "writers",
        "sendTimeoutMs": "1234",
        "retries": "5",
        "compressOverBytes": "99",
    }
    options = write_options(said)
    plain = Access(nameserver="")
    access = msgspec.structs.asdict(options.access)
    unsaid = [name for name, value in access.items() if value == getattr(plain, name)]
    assert unsaid == [], "say something else of these, or they could be lost unseen"

    producer = producers._started(options)

    found = {name: getattr(producer.client_settings, name) for name in access}
    assert found == {**access, "address_map": {"172.17.0.3": "127.0.0.1"}}
    settings = producer.settings
    assert (settings.group, settings.send_timeout_ms, settings.retries) == ("writers", 1234, 5)
    assert settings.compress_over_bytes == 99


def test_only_a_few_stay_open(options: WriteOptions) -> None:
    groups = [msgspec.structs.replace(options, group=f"group-{number}") for number in range(5)]
    opened = [producer_for(one) for one in groups[:4]]
    assert producer_for(groups[0]) is opened[0]
    producer_for(groups[4])
    assert [one.state.name for one in opened] == ["RUNNING", "CLOSED", "RUNNING", "RUNNING"]


def test_a_forked_process_has_none_of_them(options: WriteOptions) -> None:
    ours = producer_for(options)
    child = os.fork()
    if not child:
        code = 1
        try:
            theirs = producer_for(options)
            theirs.send(Message("orders", b"from the child"))
            close_producers()
            code = 0 if theirs is not ours else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert producer_for(options) is ours


def test_the_end_of_the_process_closes_them_without_a_warning(options: WriteOptions) -> None:
    program = f"""
from orbitmq.message.model import Message
from orbitmq.spark.options.options import write_options
from orbitmq.spark.writing.producers import producer_for
options = write_options({{"nameserver": {options.access.nameserver!r}}})
producer_for(options).send(Message("orders", b"paid"))
"""
    ran = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stderr == ""
