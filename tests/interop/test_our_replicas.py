"""A master and a slave of ours as processes: what was acknowledged survives the master's death."""

from pathlib import Path

from orbitmq.message.scan import decode_all
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from tests.broker.exchanges import pull_header, send_header
from tests.interop.our_servers import a_broker, a_nameserver
from tests.interop.test_replication import PATIENT, SLAVE, SYNC, TOPIC, logs, slaves_in_sync
from tests.interop.waiting import until

PAIR = {"brokerName": "pair"}
COUNT = 300


def test_a_killed_master_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with a_nameserver(tmp_path) as nameserver:
        names = str(nameserver.address)
        master = a_broker(first, nameservers=names, **PAIR, **SYNC)
        slave = a_broker(second, nameservers=names, **PAIR, **SLAVE)
        with master, slave:
            until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows")
            with BlockingConnection(master.address, settings=PATIENT) as connection:
                for number in range(COUNT):
                    answer = connection.request(send_header(TOPIC), b"%d" % number)
                    assert answer.code == ResponseCode.SUCCESS
            master.kill()
            assert logs(first) == logs(second)
            slave.kill()
        promoted = a_broker(second, nameservers=names, **PAIR)
        with promoted, BlockingConnection(promoted.address, settings=PATIENT) as connection:
            connection.request(send_header(TOPIC), b"after")
            bodies: list[bytes] = []
            while len(bodies) <= COUNT:
                answer = connection.request(pull_header(TOPIC, len(bodies)))
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                bodies += [one.body for one in decode_all(answer.body)]
    assert bodies == [*(b"%d" % number for number in range(COUNT)), b"after"]
