from orbitmq.broker.machine import Machine
from orbitmq.clock import SystemClock
from orbitmq.randomness import SystemRandomness
from orbitmq.store.disk.disk import RealDisk
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk


def test_what_is_not_said_is_real() -> None:
    machine = Machine()
    assert isinstance(machine.disk, RealDisk)
    assert isinstance(machine.clock, SystemClock)
    assert isinstance(machine.randomness, SystemRandomness)
    workers = machine.workers("broker", 3)
    assert workers.submit(sum, [1, 2]).result() == 3
    assert repr(workers) == "<ThreadWorkers 'broker' count=3>"
    workers.close()


def test_a_simulation_hands_in_its_own() -> None:
    disk, workers = SimulatedDisk(), InlineWorkers()
    machine = Machine(disk=disk, workers=lambda _name, _count: workers, pid=7)
    assert (machine.disk, machine.workers("any", 1), machine.pid) == (disk, workers, 7)
