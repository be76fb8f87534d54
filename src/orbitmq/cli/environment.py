"""Settings from environment variables, as containers and shells give them.

A client's setting is ``ORBITMQ_`` and its name in capitals, a server's key the same with its words
apart::

    access_key        ORBITMQ_ACCESS_KEY
    brokerName        ORBITMQ_BROKER_NAME
    tls.server.mode   ORBITMQ_TLS_SERVER_MODE

They win over files, and options win over them. An empty variable counts as not set.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from orbitmq.settings import Property, environment

__all__ = ["CONFIG", "of_client", "of_server", "variable"]

CONFIG: Final = "ORBITMQ_CONFIG"
"""Names the file of client properties for commands without ``-c``."""

_PREFIX: Final = "ORBITMQ_"
_NEXT_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|\.")


def variable(name: str) -> str:
    """Return the variable of a setting or of a key.

    >>> [variable(name) for name in ("tls_ca_file", "brokerIP1", "autoCreateTopicEnable")]
    ['ORBITMQ_TLS_CA_FILE', 'ORBITMQ_BROKER_IP1', 'ORBITMQ_AUTO_CREATE_TOPIC_ENABLE']
    """
    return _PREFIX + _NEXT_WORD.sub("_", name).upper()


def of_client(names: Mapping[str, str]) -> list[Property]:
    """Return the properties of the settings whose variables are set; ``names`` maps to settings."""
    first: dict[str, str] = {}
    for name, field in names.items():
        first.setdefault(field, name)
    return _given((name, variable(field)) for field, name in first.items())


def of_server(keys: Iterable[str]) -> list[Property]:
    """Return the properties of the keys whose variables are set."""
    return _given((key, variable(key)) for key in keys)


def _given(named: Iterable[tuple[str, str]]) -> list[Property]:
    found = ((name, environment(where), where) for name, where in named)
    return [Property(name, value, where) for name, value, where in found if value]
