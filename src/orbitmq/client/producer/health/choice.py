"""The fault tolerance of a producer, by its settings.

::

    off       nothing is learned; a retry avoids the broker that has just failed (Java's default)
    java5     penalties by latency, reachability and a detector, as in Java's 5.x clients
    java4     the longer penalties of Java's 4.x clients
    adaptive  bad brokers get only probes, and recover in seconds

``bench/health.py`` compares them while a broker is slow, dead, silent or flapping.
"""

from orbitmq.client.producer.health.adaptive import AdaptiveHealth
from orbitmq.client.producer.health.health import Health
from orbitmq.client.producer.health.java import Java4Health, Java5Health
from orbitmq.client.settings import FaultTolerance, ProducerSettings

__all__ = ["health_of"]


def health_of(settings: ProducerSettings) -> Health:
    """Return the health of brokers that the settings ask for, with nothing learned yet.

    >>> health_of(ProducerSettings("billing", fault_tolerance="adaptive")).active
    True
    """
    match settings.fault_tolerance:
        case FaultTolerance.OFF:
            return Health()
        case FaultTolerance.JAVA5:
            return Java5Health(
                detector=settings.detector, detect_interval_ms=settings.detect_interval_ms
            )
        case FaultTolerance.JAVA4:
            return Java4Health()
        case FaultTolerance.ADAPTIVE:
            return AdaptiveHealth()
