from orbitmq.store.timers.wheel import SLOTS, Slot, Wheel
from orbitmq.testing.disks import SimulatedDisk

NOW = 1_794_739_346_000


def test_java_s_wheel_has_its_length() -> None:
    assert Wheel(1_000).size == 38_707_200
    assert SLOTS == 1_209_600


def test_a_slot_belongs_to_one_time() -> None:
    wheel = Wheel(1_000, 100)
    wheel.add(NOW + 500, 52, 1)
    wheel.add(NOW, 104, 1)
    wheel.add(NOW, 156, -1)
    assert wheel.slot(NOW + 999) == Slot(52, 156, 1)
    assert wheel.slot(NOW + 1_000) == Slot()
    assert wheel.slot(NOW + 100_000) == Slot()  # the same slot, another time
    wheel.add(NOW + 100_000, 208, 1)
    assert wheel.slot(NOW) == Slot()
    assert wheel.slot(NOW + 100_000) == Slot(208, 208, 1)


def test_a_unit_is_counted_once() -> None:
    wheel = Wheel(1_000, 100)
    for _ in range(2):
        wheel.add(NOW, 52, 1)
        wheel.add(NOW, 104, 1)
    assert wheel.slot(NOW) == Slot(52, 104, 2)


def test_what_changed_is_written_and_loaded() -> None:
    disk = SimulatedDisk()
    wheel = Wheel(100, 1_000)
    wheel.add(NOW, 52, 1)
    wheel.add(NOW + 50_000, 104, 1)
    file = disk.open("/timerwheel", create=True)
    file.extend(wheel.size)
    pages = wheel.take_dirty()
    for page in pages:
        file.write([page.data], page.offset)
    assert wheel.take_dirty() == []
    wheel.put_back(pages)
    assert wheel.take_dirty() == pages
    again = Wheel(100, 1_000)
    again.load(file)
    assert dict(again.since(0)) == {NOW: Slot(52, 52, 1), NOW + 50_000: Slot(104, 104, 1)}
    assert dict(again.since(NOW + 1_000)) == {NOW + 50_000: Slot(104, 104, 1)}
    assert again.take_dirty() == []
