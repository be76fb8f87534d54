"""The signature of a request: who sends it, and that nobody changed it on the way.

Both generations of RocketMQ's access control check the same thing. The sender adds ``AccessKey``
(and ``SecurityToken``, if it has one) to the extension fields; all values together, in the order of
their names, then the body, are signed with the secret key; ``Signature`` carries the result::

    fields  {"topic": "orders", "AccessKey": "alice", "queueId": "3"}     body  b"paid"
    signed  b"alice" b"3" b"orders" b"paid"                               HMAC-SHA1, Base64

There is no separator and the request code is not signed, so a signature proves less than it might;
that is RocketMQ's format (Java's AclClientRPCHook and AclUtils), and TLS is the remedy.

Sign last: a field added afterwards breaks the signature. Answers, and what a broker asks of a
client, are not signed.
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
    """Who we are. The secret never shows in a repr, and so in no log or traceback.

    >>> Credentials("alice", "open sesame")
    Credentials(access_key='alice')

    Raises:
        InvalidInput: a key is empty, or the token is (None stands for no token).

    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key", "security_token"):
            if getattr(self, name) == "":
                raise InvalidInput(f"{name} is empty; give its text", field=name, length=0)


def sign(fields: Fields, body: Body, credentials: Credentials) -> dict[str, str]:
    """Return the fields to add to a request that has these fields and this body.

    The caller adds them as they are, and nothing else after them.

    >>> sign({"topic": "orders"}, b"paid", Credentials("alice", "open sesame"))
    {'AccessKey': 'alice', 'Signature': 'sE1vltNDdz2Ng6SyQMlXcaCcrvM='}

    """
    added = {ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        added[SECURITY_TOKEN] = credentials.security_token
    added[SIGNATURE] = signature({**fields, **added}, body, credentials.secret_key)
    return added


def verify(fields: Fields, body: Body, secret_key: str) -> bool:
    """Return whether the ``Signature`` among the fields is right; False if there is none.

    It takes the same time wherever the two differ. The caller looks up the secret by ``AccessKey``.
    Clients up to 4.9.3 add ``_UNIQUE_KEY_QUERY`` after signing, so for them the caller leaves that
    field out first, as Java's DefaultAuthenticationContextBuilder does.

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
    """Return the signature of a request with these fields, whose ``Signature`` is left out.

    >>> signature({"AccessKey": "alice", "topic": "orders"}, b"paid", "open sesame")
    'sE1vltNDdz2Ng6SyQMlXcaCcrvM='

    """
    digest = hmac.digest(_java_utf8(secret_key), signed_bytes(fields, body), "sha1")
    return base64.b64encode(digest).decode("ascii")


def signed_bytes(fields: Fields, body: Body) -> bytes:
    """Return what is signed: all values but the signature's, by name, then the body.

    A field without a value counts as the text ``null``: Java's StringBuilder appends that.

    >>> signed_bytes({"topic": "orders", "AccessKey": "alice", "Signature": "?"}, b"paid")
    b'aliceorderspaid'

    """
    plain = all(map(str.isascii, fields))  # then both orders are one, and no key is needed
    names = sorted(fields, key=None if plain else _utf16_units)
    values = (fields[name] for name in names if name != SIGNATURE)
    text = "".join("null" if value is None else value for value in values)
    return b"".join((_java_utf8(text), body or b""))


def _utf16_units(name: str) -> bytes:
    """Return a key that sorts as Java compares strings: by UTF-16 unit, not by code point."""
    return name.encode("utf-16-be", "surrogatepass")


def _java_utf8(text: str) -> bytes:
    """Encode as Java's ``getBytes(UTF_8)``: half of a surrogate pair becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two halves that have come to stand side by side are a whole character to Java.
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")
