import ssl
from pathlib import Path

import pytest

from orbitmq.errors import InvalidInput
from orbitmq.net.transport.tls import TlsFiles, client_context, server_context
from tests.net.conftest import Certificates


def test_a_client_verifies_certificate_and_name_by_default() -> None:
    context = client_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    careless = client_context(verify=False)
    assert (careless.verify_mode, careless.check_hostname) == (ssl.CERT_NONE, False)


def test_a_server_requests_client_certificates_as_configured(certificates: Certificates) -> None:
    alone = TlsFiles(cert_file=str(certificates.server))
    assert server_context(alone).verify_mode == ssl.CERT_NONE
    assert server_context(certificates.of_server).verify_mode == ssl.CERT_OPTIONAL
    context = server_context(certificates.of_server, require_client_cert=True)
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_a_server_without_a_certificate_is_refused() -> None:
    with pytest.raises(InvalidInput, match="set cert_file"):
        server_context(TlsFiles())


def test_files_that_are_missing_or_wrong_are_named(
    tmp_path: Path, certificates: Certificates
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    for files in (TlsFiles(ca_file="no-such.pem"), TlsFiles(ca_file=str(broken))):
        with pytest.raises(InvalidInput, match="can't be loaded"):
            client_context(files)
    with pytest.raises(InvalidInput, match="broken.pem"):
        server_context(TlsFiles(cert_file=str(broken)))
    without_key = TlsFiles(cert_file=str(certificates.ca))
    with pytest.raises(InvalidInput, match="can't be loaded"):
        server_context(without_key)


def test_a_password_does_not_show() -> None:
    assert "secret" not in repr(TlsFiles(key_password="secret"))
