"""The nameserver as a whole: route table, handlers, file and listener."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Self

from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.logs import LogLevel, set_log_level
from orbitmq.nameserver.handlers.brokers import BrokerHandlers
from orbitmq.nameserver.handlers.config import ConfigHandlers
from orbitmq.nameserver.handlers.routes import RouteHandlers
from orbitmq.nameserver.kv_config import KVConfig
from orbitmq.nameserver.kv_file import KVFile, SavedKVConfig
from orbitmq.nameserver.notices import MinBrokerIdNotices
from orbitmq.nameserver.route_table import RouteTable
from orbitmq.nameserver.settings import LiveSettings, NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.exposure import check_exposure
from orbitmq.net.handlers import Handlers
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.net.settings_file import SettingsFile
from orbitmq.net.tls_settings import TlsSettings
from orbitmq.net.transport.network import Network
from orbitmq.settings import Property
from orbitmq.threads import ThreadWorkers, Workers

__all__ = ["Nameserver"]

log = logging.getLogger("orbitmq.nameserver")


class Nameserver:
    """A nameserver; an async context manager, or ``start`` and ``close``.

    ``clock`` is for the heartbeats of brokers; ``workers`` write its files, a separate thread if
    None. Changed settings are written to ``settings_file``. ``insecure`` allows an address that
    other machines can reach, each of which can then change it. Raise InvalidInput if the address is
    not loopback without ``insecure``, or a TLS file can't be used.

    >>> async def main() -> str:
    ...     settings = NameserverSettings(listen_port=0, kv_config_path="")
    ...     async with Nameserver(settings) as nameserver:
    ...         return nameserver.address.host
    >>> asyncio.run(main())
    '127.0.0.1'
    """

    def __init__(
        self,
        settings: NameserverSettings | None = None,
        *,
        net: NetSettings | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        workers: Workers | None = None,
        tls: TlsSettings | None = None,
        settings_file: str | None = None,
        insecure: bool = False,
    ) -> None:
        self.settings = LiveSettings(settings, tls)
        """The current settings."""
        now, tls = self.settings.now, self.settings.tls
        check_exposure(now.listen_host, insecure=insecure)
        clock = clock or SystemClock()
        self._own_workers = None if workers else ThreadWorkers(1, name="orbitmq-nameserver")
        workers = workers or self._own_workers
        assert workers is not None
        self.routes = RouteTable()
        """The registered brokers and topics; read-only for callers."""
        config = KVConfig()
        file = KVFile(now.kv_config_path) if now.kv_config_path else None
        self._saved = SavedKVConfig(config, file, workers)
        self._notices = MinBrokerIdNotices(
            Dialer(settings=net, network=network, tls=tls.client_context())
        )
        self._brokers = BrokerHandlers(
            routes=self.routes,
            config=config,
            settings=self.settings,
            clock=clock,
            workers=workers,
            notify=self._notices.notify,
        )
        routes = RouteHandlers(
            routes=self.routes, config=config, settings=self.settings, clock=clock
        )
        operators = ConfigHandlers(
            saved=self._saved,
            settings=self.settings,
            file=SettingsFile(settings_file, workers),
        )
        self.handlers = Handlers(self._brokers.table(), routes.table(), operators.table())
        """The requests that it serves."""
        self._listener = Listener(
            Address(now.listen_host, now.listen_port),
            self.handlers,
            settings=net,
            tls=tls.server_context(),
            mode=tls.mode,
            network=network,
        )
        self._scan_timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Nameserver {self.address}, {self.routes!r}>"

    @property
    def address(self) -> Address:
        """Its address; before the start, the configured one."""
        return self._listener.address

    async def start(self) -> None:
        """Read the file, and start to listen.

        Raise InvalidInput if it can't listen on the address or the file is damaged, and DiskFailed
        if the file can't be read.
        """
        if (level := self.settings.now.log_level) is not LogLevel.INFO:
            set_log_level(level)  # or else it is left to the program around it
        await self._saved.load()
        try:
            await self._listener.start()
        except OSError as error:
            raise InvalidInput(
                f"can't listen on {self.address}: {error.strerror or error}; choose another port",
                field="listen_port",
            ) from error
        self._wait_for_scan()
        log.info("nameserver listens on %s", self.address)

    def reload(self, properties: Iterable[Property]) -> None:
        """Take over what can be changed of settings read again, and log what needs a restart.

        Raise InvalidSetting, and change nothing, if one can't be used.
        """
        changed, fixed = self.settings.reload(properties)
        log.info("settings reloaded; changed: %s", ", ".join(changed) or "none")
        if fixed:
            log.warning("these settings need a restart to change: %s", ", ".join(fixed))
        if "logLevel" in changed:
            set_log_level(self.settings.now.log_level)

    async def close(self) -> None:
        """Answer pending requests, up to a timeout, then close all connections."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
        await self._listener.close()
        await self._notices.close()
        if self._own_workers is not None:
            self._own_workers.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _wait_for_scan(self) -> None:
        interval_s = self.settings.now.scan_not_active_broker_interval / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(interval_s, self._scan)

    def _scan(self) -> None:
        self._wait_for_scan()
        self._brokers.expire()
