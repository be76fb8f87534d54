"""The settings of a group with elections; where Java has a setting, the name is Java's."""

from typing import Final

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address

__all__ = ["FAILOVER_NAMES", "FAILOVER_SECRETS", "FailoverSettings"]

_INT32_MAX: Final = 2**31 - 1
_LEASE_MS_MIN: Final = 2_000
"""etcd grants no shorter one."""
_BEATS_MIN: Final = 2
"""One lost answer must not end a lease."""
_TLS_FIELDS: Final = (
    *("etcd_tls_trust_cert_path", "etcd_tls_cert_path", "etcd_tls_key_path"),
    "etcd_tls_server_name",
)


class FailoverSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of elections; times are in milliseconds.

    >>> FailoverSettings(enabled=True, etcd_endpoints="127.0.0.1:2379").lease_s
    5

    Raises:
        InvalidInput: a value is out of range, or two contradict each other.
    """

    enabled: bool = False
    """Whether the brokers of one name elect their master; ``brokerRole`` and ``brokerId`` are then
    no settings."""
    etcd_endpoints: str = ""
    """The servers of etcd, separated by ``;``."""
    etcd_key_prefix: str = "/orbitmq"
    """What all keys in etcd begin with."""
    etcd_timeout_ms: int = 2_000
    """How long etcd may take to answer."""
    etcd_tls_enable: bool = False
    """Whether connections to etcd use TLS; its certificate is always verified."""
    etcd_tls_trust_cert_path: str = ""
    """The authority that etcd's certificates come from, in PEM, as the next two; empty: those that
    gRPC brings."""
    etcd_tls_cert_path: str = ""
    """The certificate that this broker shows to etcd."""
    etcd_tls_key_path: str = ""
    """Its key, without a password; empty: it is in the certificate's file."""
    etcd_tls_server_name: str = ""
    """The name in etcd's certificates, if it is not the host in ``etcd_endpoints``."""
    etcd_user: str = ""
    """The user of etcd that this broker is; empty: none."""
    etcd_password: str = ""
    """The password of the user."""
    etcd_password_file: str = ""
    """A file that holds the password instead, so that no command line and no ``broker.conf`` does.
    """
    lease_ms: int = 5_000
    """How long a broker counts as alive after its last sign of life; rounded up to seconds."""
    beat_ms: int = 1_000
    """How often a broker gives a sign of life."""
    elect_unclean: bool = False
    """Whether a broker may become master that may lack acknowledged messages, if no other can."""
    priority: int = _INT32_MAX
    """Among brokers with the same log the one with the lowest number becomes master."""

    def __post_init__(self) -> None:
        limits = {"lease_ms": (_LEASE_MS_MIN, _INT32_MAX), "priority": (0, _INT32_MAX)}
        for name in self.__struct_fields__:
            low, high = limits.get(name, (1, _INT32_MAX))
            value = getattr(self, name)
            if type(value) is int and not low <= value <= high:
                raise InvalidInput(
                    f"{name} is {value}; it must be from {low} to {high}", field=name
                )
        if self.lease_ms < _BEATS_MIN * self.beat_ms:
            raise InvalidInput(
                f"lease_ms is {self.lease_ms} and beat_ms {self.beat_ms}: a lease has to last for "
                f"{_BEATS_MIN} beats at least",
                field="lease_ms",
            )
        if not self.etcd_key_prefix.startswith("/") or self.etcd_key_prefix.endswith("/"):
            raise InvalidInput(
                f"etcd_key_prefix is {self.etcd_key_prefix!r}; it begins with a slash, and does "
                "not end with one, such as /orbitmq",
                field="etcd_key_prefix",
            )
        if not self.endpoints() and self.enabled:
            raise InvalidInput(
                "elections need a store: give etcdEndpoints, such as 10.0.0.1:2379;10.0.0.2:2379",
                field="etcd_endpoints",
            )
        self._check_tls()
        self._check_user()

    def __repr__(self) -> str:
        return f"<FailoverSettings enabled: {self.enabled}, etcd {self.etcd_endpoints!r}>"

    def _check_tls(self) -> None:
        given = [name for name in _TLS_FIELDS if getattr(self, name)]
        if given and not self.etcd_tls_enable:
            raise InvalidInput(
                "it has no effect on a connection in plain text; set etcdTlsEnable=true, or remove "
                "it",
                field=given[0],
            )
        if self.etcd_tls_key_path and not self.etcd_tls_cert_path:
            raise InvalidInput(
                "a key without a certificate is none that etcd accepts; give etcdTlsCertPath",
                field="etcd_tls_key_path",
            )

    def _check_user(self) -> None:
        if self.etcd_password and self.etcd_password_file:
            raise InvalidInput(
                "etcdPassword is given as well; remove one of them", field="etcd_password_file"
            )
        has_password = bool(self.etcd_password or self.etcd_password_file)
        if has_password and not self.etcd_user:
            field = "etcd_password" if self.etcd_password else "etcd_password_file"
            raise InvalidInput("it is no user's password; give etcdUser", field=field)
        if self.etcd_user and not has_password:
            raise InvalidInput(
                "a user of etcd needs a password; give etcdPasswordFile, or etcdPassword",
                field="etcd_user",
            )

    @property
    def lease_s(self) -> int:
        """The lease in seconds, as etcd counts them."""
        return -(-self.lease_ms // 1_000)

    def endpoints(self) -> tuple[Address, ...]:
        """Return the addresses of the etcd servers."""
        try:
            found = [Address.parse(one) for one in self.etcd_endpoints.split(";") if one.strip()]
        except InvalidInput as error:
            raise InvalidInput(
                f"etcd_endpoints: {error}; a server of etcd has port 2379 unless you chose another",
                field="etcd_endpoints",
            ) from error
        return tuple(found)


FAILOVER_NAMES: Final = {
    "enableControllerMode": "enabled",
    "etcdEndpoints": "etcd_endpoints",
    "etcdKeyPrefix": "etcd_key_prefix",
    "etcdTimeoutMillis": "etcd_timeout_ms",
    "etcdTlsEnable": "etcd_tls_enable",
    "etcdTlsTrustCertPath": "etcd_tls_trust_cert_path",
    "etcdTlsCertPath": "etcd_tls_cert_path",
    "etcdTlsKeyPath": "etcd_tls_key_path",
    "etcdTlsServerName": "etcd_tls_server_name",
    "etcdUser": "etcd_user",
    "etcdPassword": "etcd_password",
    "etcdPasswordFile": "etcd_password_file",
    "controllerHeartBeatTimeoutMills": "lease_ms",
    "brokerHeartbeatInterval": "beat_ms",
    "enableElectUncleanMaster": "elect_unclean",
    "brokerElectionPriority": "priority",
}
"""Keys → fields of `FailoverSettings`; ``etcd…`` are ours. ``enableElectUncleanMaster`` is one of
Java's controller."""
FAILOVER_SECRETS: Final = frozenset({"etcdPassword"})
"""Keys whose values are never shown."""
