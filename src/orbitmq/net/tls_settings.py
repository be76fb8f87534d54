"""TLS settings of a server, by Java's keys: what its port accepts, and how it dials others.

In Java they are system properties, or keys of the file that ``tls.config.file`` names; here they
are keys of ``broker.conf`` and ``namesrv.conf`` as well. Java's default is a certificate that it
generates, which no client can verify; here a port speaks TLS once it has a certificate.

>>> from orbitmq.settings import from_arguments
>>> settings = load(from_arguments(["tls.server.mode=disabled", "tls.enable=true"]))
>>> settings.server_mode.value, settings.client_enable
('disabled', True)
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.net.transport.network import TlsMode
from orbitmq.net.transport.tls import TlsContext, TlsFiles, client_context, server_context
from orbitmq.settings import Property, build, read

__all__ = ["TLS_NAMES", "ClientAuth", "TlsSettings", "load", "with_tls_file"]

_CONFIG_FILE: Final = "tls.config.file"


class ClientAuth(Enum):
    """Whether clients show a certificate; Java's words."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """TLS of a server; files are in PEM.

    Raises:
        InvalidInput: two of them contradict each other, or one can't be served.
    """

    server_mode: TlsMode | None = None
    """None: permissive if there is a certificate, disabled otherwise."""
    server_cert_path: str = ""
    server_key_path: str = ""
    """Empty: the key is in the certificate's file."""
    server_key_password: str = ""
    server_trust_cert_path: str = ""
    """The authority that client certificates must come from."""
    server_auth_client: bool = False
    """Whether client certificates are verified."""
    server_need_client_auth: ClientAuth = ClientAuth.NONE
    client_enable: bool = False
    """Whether the server's own connections, to nameservers or brokers, use TLS."""
    client_cert_path: str = ""
    client_key_path: str = ""
    client_key_password: str = ""
    client_trust_cert_path: str = ""
    """Empty: the authorities of the system."""
    client_auth_server: bool = True
    """Whether it verifies the other server's certificate; in Java it does not by default."""
    config_file: str = ""
    test_mode_enable: bool = False

    def __post_init__(self) -> None:
        if self.test_mode_enable and self.server_mode is not TlsMode.DISABLED:
            raise _invalid(
                "test_mode_enable",
                "certificates are not generated; set it to false and give tls.server.certPath",
            )
        if (
            self.server_mode in (TlsMode.PERMISSIVE, TlsMode.ENFORCING)
            and not self.server_cert_path
        ):
            raise _invalid("server_mode", "a port that speaks TLS needs tls.server.certPath")
        wants_clients = self.server_need_client_auth is not ClientAuth.NONE
        if wants_clients and self.mode is TlsMode.DISABLED:
            raise _invalid("server_need_client_auth", "the port does not speak TLS")
        if wants_clients and not (self.server_auth_client and self.server_trust_cert_path):
            raise _invalid(
                "server_need_client_auth",
                "client certificates are always verified; set tls.server.authClient=true and "
                "tls.server.trustCertPath",
            )
        if self.server_auth_client and not wants_clients:
            raise _invalid(
                "server_auth_client",
                "no client is asked for a certificate; set tls.server.need.client.auth=require",
            )

    def __repr__(self) -> str:
        return f"<TlsSettings {self.mode.value}, dials with TLS: {self.client_enable}>"

    @property
    def mode(self) -> TlsMode:
        """What the port accepts."""
        if self.server_mode is not None:
            return self.server_mode
        return TlsMode.PERMISSIVE if self.server_cert_path else TlsMode.DISABLED

    def server_context(self) -> TlsContext | None:
        """Return the context of the port, None without TLS; the files must be valid."""
        if self.mode is TlsMode.DISABLED:
            return None
        wants_clients = self.server_need_client_auth is not ClientAuth.NONE
        files = TlsFiles(
            ca_file=self.server_trust_cert_path if wants_clients else None,
            cert_file=self.server_cert_path,
            key_file=self.server_key_path or None,
            key_password=self.server_key_password or None,
        )
        required = self.server_need_client_auth is ClientAuth.REQUIRE
        return server_context(files, require_client_cert=required)

    def client_context(self) -> TlsContext | None:
        """Return the context of the server's own connections; None if they are in plain text."""
        if not self.client_enable:
            return None
        files = TlsFiles(
            ca_file=self.client_trust_cert_path or None,
            cert_file=self.client_cert_path or None,
            key_file=self.client_key_path or None,
            key_password=self.client_key_password or None,
        )
        return client_context(files, verify=self.client_auth_server)


TLS_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tls.server.mode": "server_mode",
        "tls.server.certPath": "server_cert_path",
        "tls.server.keyPath": "server_key_path",
        "tls.server.keyPassword": "server_key_password",
        "tls.server.trustCertPath": "server_trust_cert_path",
        "tls.server.authClient": "server_auth_client",
        "tls.server.need.client.auth": "server_need_client_auth",
        "useTLS": "client_enable",
        "tls.enable": "client_enable",
        "tls.client.certPath": "client_cert_path",
        "tls.client.keyPath": "client_key_path",
        "tls.client.keyPassword": "client_key_password",
        "tls.client.trustCertPath": "client_trust_cert_path",
        "tls.client.authServer": "client_auth_server",
        _CONFIG_FILE: "config_file",
        "tls.test.mode.enable": "test_mode_enable",
    }
)
"""Keys → fields of `TlsSettings`."""


def load(properties: Iterable[Property]) -> TlsSettings:
    """Return the TLS settings among ``properties``."""
    return build(TlsSettings, properties, TLS_NAMES)


def with_tls_file(properties: Iterable[Property]) -> list[Property]:
    """Return the properties, followed by those of the file that ``tls.config.file`` names."""
    found = list(properties)
    files = [one.value.strip() for one in found if one.name == _CONFIG_FILE]
    if not files or not files[-1]:
        return found
    added = read(files[-1])
    for one in added:
        if not one.name.startswith("tls."):
            raise InvalidSetting(
                f"{one} is no TLS setting; {_CONFIG_FILE} names a file of tls. keys alone",
                file=one.file,
                line=one.line,
                field=one.name,
            )
    return [*found, *added]


def _invalid(field: str, why: str) -> InvalidInput:
    return InvalidInput(why, field=field)
