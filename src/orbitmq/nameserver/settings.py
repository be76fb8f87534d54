"""The settings of a nameserver, and those in force while it runs.

A field is the snake case of its key in RocketMQ's ``namesrv.conf`` (``NamesrvConfig`` in Java);
``docs/settings.md`` lists them.

>>> from orbitmq.settings import from_arguments
>>> live = LiveSettings.load(from_arguments(["orderMessageEnable=true", "listenPort=0"]))
>>> live.now.order_message_enable, live.now.listen_port
(True, 0)
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.java_keys import NAMESERVER_CLASSES, ServerKeys
from orbitmq.logs import LogLevel
from orbitmq.net import tls_settings
from orbitmq.net.tls_settings import TLS_NAMES, TlsSettings
from orbitmq.settings import Property, build, texts_of

__all__ = ["JAVA_NAMES", "KEYS", "LiveSettings", "NameserverSettings"]

log = logging.getLogger("orbitmq.nameserver")

_PORT_MAX: Final = 65_535
_DAY_MS: Final = 86_400_000
_DAY_S: Final = 86_400


class NameserverSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Settings of a nameserver.

    Raises:
        InvalidInput: a number is out of range.
    """

    listen_host: str = "127.0.0.1"
    """The address it listens on; in Java all addresses (bindAddress)."""
    listen_port: int = 9876
    """The port; 0 takes a free one."""
    kv_config_path: str = "~/namesrv/kvConfig.json"
    """The file of the KV config; empty: it is lost when the nameserver stops."""
    scan_not_active_broker_interval: int = 5_000
    """How often it checks for brokers without registrations, in milliseconds."""
    order_message_enable: bool = False
    """Whether routes have the order configuration of topics."""
    return_order_topic_config_to_broker: bool = True
    """Whether the answer to a registration has the order configuration of all topics."""
    enable_all_topic_list: bool = True
    """Whether clients can list all topics."""
    enable_topic_list: bool = True
    """Whether clients can list topics by cluster and by unit."""
    delete_topic_with_broker_registration: bool = False
    """Whether a topic that a broker stops registering loses its route there."""
    support_acting_master: bool = False
    """Whether routes show a replica as master, for reading, while the master is down."""
    notify_min_broker_id_changed: bool = False
    """Whether the brokers of a name are notified when the least id among them changes."""
    need_wait_for_service: bool = False
    """Whether routes are refused at first, until all brokers have had time to register."""
    wait_seconds_for_service: int = 45
    """How long, in seconds."""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """Further keys that can't be changed from the network, separated by ``;``."""
    log_level: LogLevel = LogLevel.INFO
    """From which level on it logs: DEBUG, INFO, WARNING or ERROR."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("listen_port", 0, _PORT_MAX),
            ("scan_not_active_broker_interval", 1, _DAY_MS),
            ("wait_seconds_for_service", 0, _DAY_S),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidInput(
                    f"{name} is {value}; it must be from {least} to {most}", field=name
                )


_FIELDS: Final = NameserverSettings.__struct_fields__
JAVA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict(zip(NameserverSettings.__struct_encode_fields__, _FIELDS, strict=True)),
        "bindAddress": "listen_host",
    }
)
"""Keys → fields."""

_UPDATABLE: Final = frozenset(_FIELDS) - {
    *("listen_host", "listen_port", "kv_config_path", "config_black_list")
}
"""Fields that can be changed from the network: no addresses, no files."""
KEYS: Final = (*JAVA_NAMES, *TLS_NAMES)
"""Every key of ``namesrv.conf`` that has an effect."""
_KEYS: Final = ServerKeys(KEYS, NAMESERVER_CLASSES)


class LiveSettings:
    """The settings in force: those of the start, and the changes of operators since."""

    def __init__(
        self, settings: NameserverSettings | None = None, tls: TlsSettings | None = None
    ) -> None:
        self.now = settings or NameserverSettings()
        self.tls = tls or TlsSettings()

    @classmethod
    def load(cls, properties: Iterable[Property]) -> Self:
        """Return the settings of a file and the arguments after it; log the keys without effect."""
        given = tls_settings.with_tls_file(properties)
        _KEYS.check(given)
        for warning in _KEYS.unknown(given):
            log.warning("%s", warning)
        for note in _KEYS.notes(given):
            log.info("%s", note)
        return cls(build(NameserverSettings, given, JAVA_NAMES), tls_settings.load(given))

    def why_fixed(self, properties: Iterable[Property]) -> str | None:
        """Return why one of ``properties`` can't be set while it runs; None if all can."""
        black_list = self.now.config_black_list.split(";")
        for one in properties:
            if (why := _KEYS.reason_to_refuse(one)) is not None:
                return f"{one.name}={one.value.strip()}: {why}"
            changeable = JAVA_NAMES.get(one.name) in _UPDATABLE or _KEYS.is_harmless(one)
            if not changeable or one.name in black_list:
                return f"{one.name[:200]} can't be changed while the nameserver runs"
        return None

    def update(self, properties: Sequence[Property]) -> None:
        """Put ``properties`` in force, all or none; the caller has asked ``why_fixed`` first."""
        self.now = build(NameserverSettings, properties, JAVA_NAMES, base=self.now)

    def reload(self, properties: Iterable[Property]) -> tuple[list[str], list[str]]:
        """Take over what can be changed of the settings of a file and the arguments after it.

        Return the keys with another value now, and those that need a restart for theirs; ``tls.*``
        stands for all of TLS. Raise InvalidSetting, and change nothing, if one can't be used.
        """
        wanted = self.load(properties)
        texts = wanted.texts()
        different = [name for name, text in self.texts().items() if texts[name] != text]
        changed = [name for name in different if JAVA_NAMES[name] in _UPDATABLE]
        fixed = [name for name in different if name not in changed]
        self.update([Property(name, texts[name], "settings") for name in changed])
        return changed, fixed + ["tls.*"] * (wanted.tls != self.tls)

    def texts(self) -> dict[str, str]:
        """Return the settings in force, by Java's names."""
        return texts_of(self.now, JAVA_NAMES)
