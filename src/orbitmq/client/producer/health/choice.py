"""Which way of fault tolerance a producer takes: the one that its settings name.

::

    off       nothing is learned; a retry avoids the broker it comes from (Java's default)
    java5     penalties by latency, reachability and a detector, as in Java's 5.x clients
    java4     the longer penalties of Java's 4.x clients
    adaptive  bad brokers get probes only, and are back in seconds

``bench/health.py`` compares them while a broker is slow, dead, silent or flapping.
"""

from orbitmq.client.producer.health.adaptive import AdaptiveHealth
from orbitmq.client.producer.health.health import Health
from orbitmq.client.producer.health.java import Java4Health, Java5Health
from orbitmq.client.settings import FaultTolerance, ProducerSettings

__all__ = ["health_of"]


def health_of(settings: ProducerSettings) -> Health:
    """Return the way that the settings name, having learned nothing yet.

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
