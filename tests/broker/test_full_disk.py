"""A broker as a process on a disk that fills up: it refuses, serves what it has, and comes back."""

from pathlib import Path

from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from tests.broker.exchanges import pulled, send_header
from tests.interop.java_server import PATIENT
from tests.interop.our_servers import a_broker
from tests.interop.waiting import until
from tests.small_disks import ballast, mounting, small_disk

TOPIC = "orders"
BODY = b"x" * 64 * 1024
SENDS_MAX = 1_000
"""More than the disk has room for."""


def test_a_full_disk_refuses_messages_and_serves_reads_until_there_is_room(tmp_path: Path) -> None:
    def send(connection: BlockingConnection) -> tuple[int, str]:
        answer = connection.request(send_header(TOPIC), BODY)
        return answer.code, answer.remark or ""

    with mounting(), small_disk(tmp_path / "disk", mib=80) as directory:
        settings = {"mappedFileSizeCommitLog": str(8 * 1024 * 1024)}
        broker = a_broker(directory / "store", nameservers="127.0.0.1:9", **settings)
        with broker, BlockingConnection(broker.address, settings=PATIENT) as connection:
            pid = broker.pid
            assert send(connection) == (ResponseCode.SUCCESS, "")
            weight = ballast(directory, left=20 * 1024 * 1024)
            answers = [send(connection) for _ in range(SENDS_MAX)]
            refused = answers[-1]
            assert refused[0] in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR)
            assert "disk" in refused[1] or "No space left on device" in refused[1]
            stored = 1 + [code for code, _ in answers].count(ResponseCode.SUCCESS)
            assert 1 < stored < SENDS_MAX
            assert len(pulled(connection, TOPIC)) == stored
            weight.unlink()
            until(lambda: send(connection)[0] == ResponseCode.SUCCESS, what="there is room again")
            assert len(pulled(connection, TOPIC)) == stored + 1
            assert broker.pid == pid
