"""The broker id that a broker keeps for ever, in files of Java's form.

::

    brokerIdentity        CLUSTER#NAME#ID          it has the id
    brokerIdentity-temp   CLUSTER#NAME#ID#CODE     it may have applied for the id, with this code

The second is written before the broker applies: after a crash it asks again for the same id, and
recognizes by the code that it was itself who got it.
"""

from typing import Final, NamedTuple, Protocol

from orbitmq.errors import InvalidInput

__all__ = ["IDENTITY_FILE", "Application", "Identity", "IdentityFiles"]

IDENTITY_FILE: Final = "brokerIdentity"
"""Its name in the store directory (Java's ``storePathBrokerIdentity``)."""


class Identity(NamedTuple):
    """Who a broker is."""

    cluster: str
    name: str
    broker_id: int

    def encode(self) -> str:
        """Return the content of the file.

        >>> Identity("shop", "orders", 2).encode()
        'shop#orders#2'
        """
        return f"{self.cluster}#{self.name}#{self.broker_id}"

    @classmethod
    def decode(cls, text: str) -> "Identity":
        """Return what a file says; raise InvalidInput if it can't be read."""
        cluster, name, _ = _split(text, 3)
        return cls(cluster, name, _number(text))


class Application(NamedTuple):
    """An id that a broker has applied for."""

    identity: Identity
    check_code: str

    def encode(self) -> str:
        """Return the content of the file."""
        return f"{self.identity.encode()}#{self.check_code}"

    @classmethod
    def decode(cls, text: str) -> "Application":
        """Return what a file says; raise InvalidInput if it can't be read."""
        cluster, name, _, code = _split(text, 4)
        return cls(Identity(cluster, name, _number(text)), code)


class IdentityFiles(Protocol):
    """The two files, which are replaced as a whole and synced."""

    def read(self, name: str) -> str | None:
        """Return the content of a file; None if there is none."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write a file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...


def _split(text: str, count: int) -> list[str]:
    parts = text.strip().split("#")
    if len(parts) != count:
        raise InvalidInput(
            f"the broker's identity is {text[:80]!r}: it must have {count} parts with # between",
            field="identity",
        )
    return parts


def _number(text: str) -> int:
    number = text.strip().split("#")[2]
    if not (number.isascii() and number.isdigit() and int(number)):
        raise InvalidInput(
            f"the broker's identity is {text[:80]!r}: its id is no positive number",
            field="identity",
        )
    return int(number)
