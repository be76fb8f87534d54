"""A Kafka broker for comparison, and the jars of Spark's Kafka source; Maven fetches both."""

import contextlib
import hashlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.interop import counterparts, machine
from tests.interop.java_server import START_SECONDS, free_port
from tests.interop.waiting import until

__all__ = ["KAFKA_VERSION", "missing", "running", "spark_jars"]

KAFKA_VERSION: Final = "3.9.1"
_POM: Final = Path(__file__).with_name("kafka-pom.xml")
_JARS: Final = machine.HOME / f"kafka-{KAFKA_VERSION}"
_COMPLETE: Final = _JARS / ".complete"

_OF_SPARK: Final = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
"""The jars that Spark's Kafka source needs."""

# The heap size and garbage collector of Kafka's start script.
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_CLUSTER_ID: Final = "b3JiaXRtcS1iZW5jaC0wMA"
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={directory}/logs
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def missing() -> str | None:
    """Fetch Kafka's jars if needed; return why Kafka can't run here, None if it can."""
    home, maven = counterparts.java_home(), shutil.which("mvn")
    if home is None:
        return f"no Java {counterparts.JAVA_AT_LEAST} or later"
    if _is_complete():
        return None
    if maven is None:
        return "Maven is needed to fetch the jars"
    shutil.rmtree(_JARS, ignore_errors=True)
    copy = [maven, "-B", "-q", "-f", str(_POM), "dependency:copy-dependencies"]
    copy += [f"-DoutputDirectory={_JARS}", "-DincludeScope=runtime"]
    if trouble := machine.run(copy, machine.DOWNLOAD_SECONDS):
        return f"Maven could not fetch the jars: {trouble}"
    _COMPLETE.write_text(_fingerprint())
    return None


def _is_complete() -> bool:
    return _COMPLETE.is_file() and _COMPLETE.read_text() == _fingerprint()


def _fingerprint() -> str:
    return hashlib.sha256(_POM.read_bytes()).hexdigest()


def spark_jars() -> list[Path]:
    """Return the jars that ``format("kafka")`` needs."""
    return sorted(jar for jar in _JARS.glob("*.jar") if jar.name.startswith(_OF_SPARK))


@contextlib.contextmanager
def running(directory: Path, *, partitions: int) -> Iterator[str]:
    """Run a broker that is its own controller; yield its address.

    Args:
        directory: where its files go; it is created.
        partitions: the partitions of a topic, which is created by its first write.
    """
    directory.mkdir(parents=True)
    port, controller = free_port(), free_port()
    settings = directory / "server.properties"
    settings.write_text(
        _SETTINGS.format(
            port=port, controller=controller, directory=directory, partitions=partitions
        )
    )
    with (directory / "output.log").open("wb") as output:
        formatting = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(settings))
        subprocess.run(_java(*formatting), stdout=output, stderr=output, check=True)
        with subprocess.Popen(
            _java("kafka.Kafka", str(settings)), stdout=output, stderr=output
        ) as process:
            try:
                until(lambda: _serves(process, port), what="Kafka to listen", seconds=START_SECONDS)
                yield f"127.0.0.1:{port}"
            finally:
                process.kill()


def _java(*arguments: str) -> list[str]:
    home = counterparts.java_home()
    assert home is not None, "see missing()"
    return [str(home / "bin" / "java"), *_JVM_OPTIONS, "-cp", f"{_JARS}/*", *arguments]


def _serves(process: "subprocess.Popen[bytes]", port: int) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"Kafka ended with status {process.returncode} while it started")
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
