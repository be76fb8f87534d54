"""Java's TLS keys: what a port accepts, and what can't be served."""

from pathlib import Path

import pytest

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.net import tls_settings
from orbitmq.net.tls_settings import ClientAuth, TlsSettings
from orbitmq.net.transport.network import TlsMode
from orbitmq.settings import from_arguments
from tests.net.conftest import Certificates


def load(*arguments: str) -> TlsSettings:
    return tls_settings.load(from_arguments(arguments))


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ((), TlsMode.DISABLED),
        (("tls.server.certPath=a.pem",), TlsMode.PERMISSIVE),
        (("tls.server.certPath=a.pem", "tls.server.mode=enforcing"), TlsMode.ENFORCING),
        (("tls.server.certPath=a.pem", "tls.server.mode=disabled"), TlsMode.DISABLED),
        (("tls.server.mode=disabled", "tls.test.mode.enable=true"), TlsMode.DISABLED),
    ],
)
def test_a_port_speaks_tls_once_it_has_a_certificate(
    arguments: tuple[str, ...], mode: TlsMode
) -> None:
    assert load(*arguments).mode is mode


CERTIFICATE = "tls.server.certPath=a.pem"
TRUST = "tls.server.trustCertPath=ca.pem"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tls.server.mode=enforcing"], "tls.server.mode: a port that speaks TLS needs"),
        (["tls.server.mode=permissive"], "tls.server.mode: a port that speaks TLS needs"),
        (["tls.server.mode=strict"], "not one of disabled, permissive, enforcing"),
        (["tls.test.mode.enable=true"], "certificates are not generated"),
        (["tls.server.need.client.auth=require"], "the port does not speak TLS"),
        ([CERTIFICATE, "tls.server.need.client.auth=require"], "always verified; set"),
        ([CERTIFICATE, TRUST, "tls.server.need.client.auth=optional"], "always verified; set"),
        ([CERTIFICATE, TRUST, "tls.server.authClient=true"], "no client is asked"),
    ],
)
def test_what_promises_more_than_is_done_is_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        load(*arguments)


def test_client_certificates_are_asked_for_and_verified(certificates: Certificates) -> None:
    settings = TlsSettings(
        server_cert_path=str(certificates.server),
        server_trust_cert_path=str(certificates.ca),
        server_auth_client=True,
        server_need_client_auth=ClientAuth.REQUIRE,
    )
    context = settings.server_context()
    assert context is not None
    assert context.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    ("arguments", "mode"), [((), "CERT_REQUIRED"), (("tls.client.authServer=false",), "CERT_NONE")]
)
def test_connections_to_others_verify_them_unless_switched_off(
    arguments: tuple[str, ...], mode: str
) -> None:
    context = load("tls.enable=true", *arguments).client_context()
    assert context is not None
    assert context.verify_mode.name == mode


def test_connections_to_others_are_plain_unless_enabled() -> None:
    assert load("tls.client.authServer=false").client_context() is None


def test_a_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="can't be loaded"):
        load("tls.server.certPath=/no/such/file.pem").server_context()


def test_keys_of_the_tls_file_replace_those_before_it(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.certPath=from-file.pem\ntls.test.mode.enable=false\n")
    said = from_arguments(["tls.server.certPath=other.pem", f"tls.config.file={file}"])
    settings = tls_settings.load(tls_settings.with_tls_file(said))
    assert settings.server_cert_path == "from-file.pem"


def test_the_tls_file_has_tls_keys_alone(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("listenPort=1\n")
    with pytest.raises(InvalidSetting, match="listenPort is no TLS setting"):
        tls_settings.with_tls_file(from_arguments([f"tls.config.file={file}"]))


def test_a_tls_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(InvalidSetting, match="can't be read"):
        tls_settings.with_tls_file(from_arguments(["tls.config.file=/no/such/file"]))


def test_passwords_are_not_shown() -> None:
    settings = TlsSettings(server_key_password="hidden", client_key_password="hidden")
    assert "hidden" not in repr(settings)
