"""Addresses of servers: ``host:port``, ``[ipv6]:port``."""

from typing import NamedTuple

from orbitmq.errors import InvalidInput

__all__ = ["Address", "parse_addresses"]

_PORT_MAX = 65_535


class Address(NamedTuple):
    """A host name or IP address, and a port.

    >>> Address.parse("broker-a.local:10911")
    Address(host='broker-a.local', port=10911)
    >>> str(Address("::1", 9876))
    '[::1]:9876'
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the address with this text; raise InvalidInput if host or port is invalid."""
        host, separator, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            hint = (
                "write ; between addresses"
                if "," in host  # as in Kafka's bootstrap servers
                else "write an IPv6 address in brackets, as in [::1]:9876"
            )
            raise InvalidInput(f"address {text!r}: {hint}", field="address")
        # int() would accept more than ASCII digits.
        if not separator or not host or not (port.isascii() and port.isdigit()):
            raise InvalidInput(
                f"address {text!r} is not of the form host:port, as in 127.0.0.1:9876",
                field="address",
            )
        if len(port) > len(str(_PORT_MAX)) or int(port) > _PORT_MAX:
            raise InvalidInput(
                f"address {text!r}: the port is over {_PORT_MAX}", field="address", limit=_PORT_MAX
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a list of nameservers; as in Java, ``http://`` is dropped.

    >>> parse_addresses("127.0.0.1:9876; http://ns-2:9876")
    (Address(host='127.0.0.1', port=9876), Address(host='ns-2', port=9876))
    """
    found: dict[Address, None] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        try:
            address = Address.parse(part.strip().rpartition("/")[2])
        except InvalidInput as error:
            raise InvalidInput(f"nameserver: {error}", field="nameserver") from error
        if not address.port:
            raise InvalidInput(f"nameserver: {address} has no port", field="nameserver")
        found[address] = None
    return tuple(found)
