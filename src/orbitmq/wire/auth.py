"""Signatures of requests: they prove who sent a request, and that it was not changed.

Both generations of RocketMQ's access control use the same signature. The sender adds ``AccessKey``
(and ``SecurityToken``, if it has one) to the extension fields. All values, in the order of their
names, and then the body are signed with the secret key; ``Signature`` has the result::

    fields  {"topic": "orders", "AccessKey": "alice", "queueId": "3"}     body  b"paid"
    signed  b"alice" b"3" b"orders" b"paid"                               HMAC-SHA1, Base64

There is no separator, and the request code is not signed, so the protection is weak; that is
RocketMQ's format (Java's AclClientRPCHook and AclUtils). Use TLS.

Sign last: a field added afterwards breaks the signature. Answers and requests of brokers to clients
are not signed.
"""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from orbitmq.errors import InvalidInput
from orbitmq.message.buffer import Buffer

__all__ = [
    "ACCESS_KEY",
    "SECURITY_TOKEN",
    "SIGNATURE",
    "Credentials",
    "sign",
    "signature",
    "signed_bytes",
    "verify",
]

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

Body = Buffer | None
Fields = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret, which never shows in a repr, a log or a traceback.

    >>> Credentials("alice", "open sesame")
    Credentials(access_key='alice')
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key", "security_token"):
            if getattr(self, name) == "":
                raise InvalidInput(f"{name} is empty; set it", field=name, length=0)


def sign(fields: Fields, body: Body, credentials: Credentials) -> dict[str, str]:
    """Return the fields to add to a request with these fields and this body.

    The caller must not change or add other fields afterwards.

    >>> sign({"topic": "orders"}, b"paid", Credentials("alice", "open sesame"))
    {'AccessKey': 'alice', 'Signature': 'sE1vltNDdz2Ng6SyQMlXcaCcrvM='}
    """
    added = {ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        added[SECURITY_TOKEN] = credentials.security_token
    added[SIGNATURE] = signature({**fields, **added}, body, credentials.secret_key)
    return added


def verify(fields: Fields, body: Body, secret_key: str) -> bool:
    """Return whether the ``Signature`` field is right; False if there is none.

    The comparison takes constant time. The caller looks up the secret by ``AccessKey``. Clients up
    to 4.9.3 add ``_UNIQUE_KEY_QUERY`` after signing, so the caller has to remove that field for
    them, as Java's DefaultAuthenticationContextBuilder does.

    >>> fields = {"topic": "orders"} | sign({"topic": "orders"}, None, Credentials("alice", "pw"))
    >>> verify(fields, None, "pw"), verify(fields, b"more", "pw")
    (True, False)
    """
    given = fields.get(SIGNATURE)
    if given is None:
        return False
    return hmac.compare_digest(
        _java_utf8(given), signature(fields, body, secret_key).encode("ascii")
    )


def signature(fields: Fields, body: Body, secret_key: str) -> str:
    """Return the signature of a request with these fields, ignoring ``Signature``.

    >>> signature({"AccessKey": "alice", "topic": "orders"}, b"paid", "open sesame")
    'sE1vltNDdz2Ng6SyQMlXcaCcrvM='
    """
    digest = hmac.digest(_java_utf8(secret_key), signed_bytes(fields, body), "sha1")
    return base64.b64encode(digest).decode("ascii")


def signed_bytes(fields: Fields, body: Body) -> bytes:
    """Return the signed bytes: all values except the signature, sorted by name, then the body.

    A field without a value counts as the text ``null``, which Java's StringBuilder appends.

    >>> signed_bytes({"topic": "orders", "AccessKey": "alice", "Signature": "?"}, b"paid")
    b'aliceorderspaid'
    """
    plain = all(map(str.isascii, fields))  # then both orders agree
    names = sorted(fields, key=None if plain else _utf16_units)
    values = (fields[name] for name in names if name != SIGNATURE)
    text = "".join("null" if value is None else value for value in values)
    return b"".join((_java_utf8(text), body or b""))


def _utf16_units(name: str) -> bytes:
    """Return a sort key for Java's order of strings: by UTF-16 units, not code points."""
    return name.encode("utf-16-be", "surrogatepass")


def _java_utf8(text: str) -> bytes:
    """Encode as Java's ``getBytes(UTF_8)``: half of a surrogate pair becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two halves side by side are one character in Java.
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")
