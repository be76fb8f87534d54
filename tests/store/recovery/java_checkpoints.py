"""Checkpoints as a Java broker leaves them."""

from orbitmq.store.checkpoint.checkpoint import Checkpoint, CheckpointValues
from orbitmq.testing.disks import SimulatedDisk


def written_by_java(disk: SimulatedDisk, *, log_ms: int, queues_ms: int = 0) -> None:
    """Have the checkpoint of a Java broker in place of ours."""
    disk.remove("/store/checkpoint")
    checkpoint = Checkpoint(disk, "/store/checkpoint")
    checkpoint.write(CheckpointValues(log_ms, queues_ms))
    checkpoint.close()
