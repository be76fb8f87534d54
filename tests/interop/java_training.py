"""Runs a nameserver, a broker and clients of one release, so that they load their classes.

    python -m tests.interop.java_training VERSION DIRECTORY

See ``java_classes``.
"""

import sys
from pathlib import Path

from tests.interop import counterparts
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.team import Team


def main(version: str, directory: str) -> None:
    home = counterparts.java_home()
    assert home is not None
    place = Path(directory)
    jars = counterparts.jars_of(version)
    with (
        JavaCluster(version, place / "cluster") as cluster,
        Java(version, jars=jars, java_home=home, home=place) as java,
    ):
        team = Team(java, str(cluster.nameserver.address), [str(cluster.broker.address)])
        topic = cluster.create_topic("classes")
        with team.producer() as producer, team.consumer(topic) as consumer:
            producer.send_bodies(topic, b"of a class")
            consumer.wait_for(1)
        team.mqadmin("clusterList")
        # Not killed: a list is complete when Java ends.
        cluster.broker.stop()
        cluster.nameserver.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
