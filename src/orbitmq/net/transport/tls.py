"""TLS contexts from files. A client verifies the server by default."""

import ssl

import msgspec

from orbitmq.errors import InvalidInput

__all__ = ["TlsContext", "TlsFiles", "client_context", "server_context"]

TlsContext = ssl.SSLContext
"""The type for other rooms, which may not import ``ssl``."""


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where certificates and keys are, in PEM.

    >>> TlsFiles(ca_file="ca.pem")
    TlsFiles(ca_file='ca.pem', cert_file=None, key_file=None)
    """

    ca_file: str | None = None
    """The trusted authorities; by default the system's."""
    cert_file: str | None = None
    """Our certificate chain; required for a server."""
    key_file: str | None = None
    """The key of our certificate; by default in ``cert_file``."""
    key_password: str | None = None

    def __repr__(self) -> str:
        return (
            f"TlsFiles(ca_file={self.ca_file!r}, cert_file={self.cert_file!r}, "
            f"key_file={self.key_file!r})"
        )


def client_context(files: TlsFiles | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """Return the context of a client.

    Without ``files`` it trusts the system's authorities and has no certificate. Without ``verify``
    anyone can impersonate the broker; Java's test mode needs that, since its servers have
    self-signed certificates. Raise InvalidInput if a file is missing or invalid.
    """
    files = files or TlsFiles()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif files.ca_file is None:
        context.load_default_certs()
    _load(context, files)
    return context


def server_context(files: TlsFiles, *, require_client_cert: bool = False) -> ssl.SSLContext:
    """Return the context of a server.

    ``files`` are our certificate and key, and the authorities for client certificates, which
    ``require_client_cert`` demands (mutual TLS). Raise InvalidInput if a file is missing or
    invalid.
    """
    if files.cert_file is None:
        raise InvalidInput("a TLS server needs a certificate: set cert_file", field="cert_file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if require_client_cert:
        context.verify_mode = ssl.CERT_REQUIRED
    elif files.ca_file is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        if files.ca_file is not None:
            context.load_verify_locations(files.ca_file)
        if files.cert_file is not None:
            context.load_cert_chain(files.cert_file, files.key_file, files.key_password or "")
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"TLS files {files!r} can't be loaded: {error}", field="tls") from error
