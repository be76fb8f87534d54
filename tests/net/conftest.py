from pathlib import Path

import pytest
import trustme

from orbitmq.net.transport.tls import TlsFiles


class Certificates:
    """An authority, and what it has signed, as files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.server = folder / "server.pem"
        authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
            self.server
        )
        self.client = folder / "client.pem"
        authority.issue_cert("alice@example.org").private_key_and_cert_chain_pem.write_to_path(
            self.client
        )

    @property
    def of_server(self) -> TlsFiles:
        return TlsFiles(ca_file=str(self.ca), cert_file=str(self.server))

    @property
    def of_client(self) -> TlsFiles:
        return TlsFiles(ca_file=str(self.ca))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))
