"""The address of a peer as stored in records and message ids: IP bytes and a port."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from reprlib import repr as elided
from typing import NamedTuple

from orbitmq.errors import InvalidInput

__all__ = ["Host"]


class Host(NamedTuple):
    r"""An IP address of 4 or 16 bytes, and a port.

    >>> str(Host(b"\x7f\x00\x00\x01", 10911))
    '127.0.0.1:10911'
    >>> Host.parse("[::1]:10911").is_ipv6
    True
    """

    ip: bytes
    port: int

    @property
    def is_ipv6(self) -> bool:
        """Whether the address has 16 bytes; the sys flag of the record has a bit for that."""
        return len(self.ip) == 16

    @classmethod
    def parse(cls, text: str) -> "Host":
        r"""Return the host of a text such as ``1.2.3.4:5`` or ``[::1]:5``.

        A zone such as ``%eth0`` is dropped, since sixteen bytes have no room for it. Host names are
        refused: a record stores the address, and resolving a name is up to the caller.

        >>> Host.parse("10.0.0.7:10911")
        Host(ip=b'\n\x00\x00\x07', port=10911)
        """
        address, colon, port_text = text.rpartition(":")
        if not colon:
            raise _unreadable(text, "the port is missing")
        if not (
            port_text.isascii()
            and port_text.isdecimal()
            and len(port_text) <= 5
            and int(port_text) <= 0xFFFF
        ):
            raise _unreadable(text, "the port must be a number from 0 to 65535")
        return cls(_packed_ip(text, address), int(port_text))

    def __str__(self) -> str:
        if self.is_ipv6:
            return f"[{IPv6Address(self.ip)}]:{self.port}"
        return f"{IPv4Address(self.ip)}:{self.port}"


def _packed_ip(text: str, address: str) -> bytes:
    try:
        if address.startswith("[") and address.endswith("]"):
            ip = IPv6Address(address[1:-1])
            # Java's InetAddress reads ::ffff:1.2.3.4 as an IPv4 address.
            return (ip.ipv4_mapped or ip).packed
        return IPv4Address(address).packed
    except AddressValueError:
        hint = "write an IPv6 address in brackets" if ":" in address else "resolve host names first"
        raise _unreadable(text, f"{elided(address)} is not an IP address; {hint}") from None


def _unreadable(text: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"host {elided(text)} is not of the form 1.2.3.4:10911 or [::1]:10911: {why}",
        field="host",
        length=len(text),
    )
