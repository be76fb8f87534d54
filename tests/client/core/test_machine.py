import os

from orbitmq.client.core.machine import Machine
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.links import MemoryNetwork


def test_it_is_the_real_one_where_nothing_else_is_said() -> None:
    machine = Machine()
    assert isinstance(machine.network, TcpNetwork)
    assert machine.pid == os.getpid()
    assert machine.environment("PATH") == os.environ["PATH"].strip()
    workers = machine.workers("test")
    assert workers.submit(sum, [1, 2]).result() == 3
    workers.close()
    handlers = machine.handler_workers(3)
    assert repr(handlers) == "<DaemonWorkers 'orbitmq-handler' count=3>"
    handlers.close()


def test_each_part_can_be_another() -> None:
    network, workers = MemoryNetwork(), InlineWorkers()
    machine = Machine(network=network, workers=lambda _name: workers, host="10.0.0.9", pid=7)
    assert machine.network is network
    assert machine.workers("any") is workers
    assert machine.handler_workers(3) is workers
    assert repr(machine) == "<Machine 10.0.0.9 pid=7>"


def test_ids_of_two_generators_differ() -> None:
    machine = Machine(host="10.0.0.9", pid=7)
    first, second = machine.unique_ids().next(), machine.unique_ids().next()
    assert first.startswith("0A0000090007")
    assert first != second
