"""Checkpoints as a Java broker leaves them."""

from orbitmq.store.checkpoint.checkpoint import Checkpoint, CheckpointValues
from orbitmq.testing.disks import SimulatedDisk


def written_by_java(disk: SimulatedDisk, **values: int) -> None:
    """Have the checkpoint of a Java broker in place of ours."""
    disk.remove("/store/checkpoint")
    checkpoint = Checkpoint(disk, "/store/checkpoint")
    checkpoint.write(CheckpointValues(**values))
    checkpoint.close()
