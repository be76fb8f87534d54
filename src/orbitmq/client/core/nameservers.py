"""The nameservers of a client, any of which may be down.

One of them is asked until it fails, then the next one, and so on, round the list. The list is
shuffled once, so that clients spread over it. Its sources::

    ClientSettings.nameserver ─┐
    NAMESRV_ADDR ──────────────┴─▶ fixed
    ClientSettings.nameserver_url ─▶ fetched at the start, and every two minutes
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from orbitmq.client.core.machine import Machine
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import (
    InvalidInput,
    NameserversFailed,
    NoNameserver,
    OrbitError,
    RequestTimeout,
)
from orbitmq.net.address import Address, parse_addresses
from orbitmq.net.dialer import Dialer
from orbitmq.net.transport.web_text import fetch_text
from orbitmq.randomness import Randomness
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer, Frame

__all__ = ["NAMESERVER_VARIABLE", "Nameservers", "not_a_nameserver"]

log = logging.getLogger("orbitmq.client")

NAMESERVER_VARIABLE: Final = "NAMESRV_ADDR"
_DEFAULT_PORT: Final = 9876
_REFRESH_S: Final = 120
_FETCH_MS: Final = 3_000
"""As in Java (MQClientInstance, DefaultTopAddressing)."""


class Nameservers:
    """The nameservers of one client; raise NoNameserver if none is set."""

    def __init__(self, settings: ClientSettings, dialer: Dialer, machine: Machine) -> None:
        self._dialer = dialer
        self._machine = machine
        self._url = _list_url(settings)
        self._tls = settings.tls_context() if self._url.startswith("https:") else None
        self._fields = dict(settings.header_fields)
        self._addresses = () if self._url else self._shuffled(_listed(settings, machine))
        self._current = 0
        self._is_list_stale = False

    def __repr__(self) -> str:
        return f"<Nameservers {', '.join(map(str, self._addresses)) or self._url}>"

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Their addresses, in the order in which they are asked."""
        return self._addresses

    async def start(self) -> None:
        """Fetch the list, if there is a URL for it; raise NoNameserver if that fails."""
        if self._url:
            try:
                await self._fetch()
            except OrbitError as error:
                raise NoNameserver(
                    f"no nameserver is known: nameserver_url: {error}", field="nameserver_url"
                ) from error

    async def run(self) -> None:
        """Fetch the list every two minutes, until cancelled; return at once if it is fixed."""
        while self._url:
            await asyncio.sleep(_REFRESH_S)
            try:
                await self._fetch()
                self._is_list_stale = False
            except OrbitError as error:
                if not self._is_list_stale:
                    log.warning("the list of nameservers stays as it is: %s", error)
                self._is_list_stale = True

    def in_turn(self) -> Iterator[Address]:
        """Yield each nameserver once, starting with the one that answered last."""
        addresses, first = self._addresses, self._current
        for step in range(len(addresses)):
            yield addresses[(first + step) % len(addresses)]

    async def ask(
        self,
        address: Address,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int,
        share_ms: int | None = None,
        code: int | None = None,
    ) -> Frame:
        """Return the answer of one nameserver, with any code; after an error the next one is due.

        ``share_ms`` limits connection and answer together, if another nameserver can be asked.
        """
        try:
            async with asyncio.timeout(None if share_ms is None else share_ms / 1_000):
                answer = await self._dialer.request(
                    address, header, body, timeout_ms=timeout_ms, code=code, fields=self._fields
                )
        except TimeoutError:
            self._turn_from(address)
            raise RequestTimeout(
                f"{address} did not answer within {share_ms} ms",
                address=str(address),
                timeout_ms=share_ms or 0,
            ) from None
        except OrbitError:
            self._turn_from(address)
            raise
        self._stay_with(address)
        return answer

    async def request(
        self, header: Header, body: Buffer = b"", *, timeout_ms: int, code: int | None = None
    ) -> Frame:
        """Return the answer of the first nameserver that answers, with any code.

        Raise NameserversFailed if none does; its ``answers`` has the error of each request.
        """
        answers: dict[str, str] = {}
        for address in self.in_turn():
            try:
                return await self.ask(address, header, body, timeout_ms=timeout_ms, code=code)
            except OrbitError as error:
                answers[str(address)] = str(error)
        errors = "; ".join(
            error if address in error else f"{address}: {error}"
            for address, error in answers.items()
        )
        raise NameserversFailed(f"no nameserver answers: {errors}", answers=answers)

    def _turn_from(self, address: Address) -> None:
        """Start with the next one from now on, unless another request has already done so."""
        if self._addresses and self._addresses[self._current] == address:
            self._current = (self._current + 1) % len(self._addresses)
            if len(self._addresses) > 1:
                log.info("nameserver %s fails; %s is next", address, self._addresses[self._current])

    def _stay_with(self, address: Address) -> None:
        if address in self._addresses:
            self._current = self._addresses.index(address)

    async def _fetch(self) -> None:
        text = await fetch_text(
            self._url, network=self._machine.network, timeout_ms=_FETCH_MS, tls=self._tls
        )
        lines = text.splitlines()
        fetched = parse_addresses(lines[0] if lines else "")
        if not fetched:
            raise InvalidInput(f"{self._url} returns an empty list", field="nameserver_url")
        if set(fetched) == set(self._addresses):
            return
        before = self._addresses[self._current] if self._addresses else None
        self._addresses = self._shuffled(fetched)
        self._current = self._addresses.index(before) if before in self._addresses else 0
        log.info("the nameservers are now %s", ", ".join(map(str, self._addresses)))

    def _shuffled(self, addresses: Sequence[Address]) -> tuple[Address, ...]:
        return _shuffled(addresses, self._machine.randomness)


def _listed(settings: ClientSettings, machine: Machine) -> tuple[Address, ...]:
    addresses = parse_addresses(settings.nameserver)
    if not addresses:
        try:
            addresses = parse_addresses(machine.environment(NAMESERVER_VARIABLE))
        except InvalidInput as error:
            raise InvalidInput(f"{NAMESERVER_VARIABLE}: {error}", field="nameserver") from error
    if not addresses:
        raise NoNameserver(
            "no nameserver is set; give nameserver='host:9876' (several are separated by ;), "
            f"set {NAMESERVER_VARIABLE} in the environment, namesrvAddr in a properties file, "
            "or nameserver_url='http://…' to fetch a list",
            field="nameserver",
        )
    return addresses


def not_a_nameserver(address: Address) -> str:
    """Return what is wrong with a server that doesn't know a request that all nameservers know.

    >>> not_a_nameserver(Address("10.0.0.7", 10911))
    '10.0.0.7:10911 looks like a broker, not a nameserver; nameservers listen on 9876 by default'
    """
    return (
        f"{address} looks like a broker, not a nameserver; nameservers listen on {_DEFAULT_PORT} "
        "by default"
    )


def _list_url(settings: ClientSettings) -> str:
    """Return the URL of the list, with the unit as Java's ``DefaultTopAddressing`` writes it."""
    if not settings.nameserver_url or not settings.unit_name:
        return settings.nameserver_url
    return f"{settings.nameserver_url}-{settings.unit_name}?nofix=1"


def _shuffled(addresses: Sequence[Address], randomness: Randomness) -> tuple[Address, ...]:
    left = list(addresses)
    return tuple(left.pop(randomness.below(len(left))) for _ in addresses)
