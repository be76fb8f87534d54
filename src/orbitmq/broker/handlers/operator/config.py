"""Settings for operators: GET_BROKER_CONFIG, UPDATE_BROKER_CONFIG.

Java allows changes of all but a few settings, and writes them to the broker's file. Here
`orbitmq.broker.settings.UPDATABLE` lists those that can change, and a change lasts until the broker
stops.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.topics import Topics
from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.logs import set_log_level
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.settings import Property, parse
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import GetBrokerConfigAnswer
from orbitmq.wire.json.properties_text import properties_to_text
from orbitmq.wire.session import Response

__all__ = ["ConfigHandlers"]

log = logging.getLogger("orbitmq.broker")

_TEXT_BYTES_MAX: Final = 64 * 1024
"""All settings together take some 5 KiB; parsing a longer text would block the loop."""
_IN_ROUTES: Final = "brokerPermission"


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ConfigHandlers:
    """Serves requests about the settings."""

    settings: LiveSettings
    topics: Topics
    store: MessageStore
    clock: Clock

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_CONFIG: self._get,
            RequestCode.UPDATE_BROKER_CONFIG: self._update,
        }

    def _get(self, _connection: Connection, _request: Frame) -> Response:
        version = self.settings.data_version.to_json().decode()
        text = properties_to_text(self.settings.as_properties())
        return Response(header=GetBrokerConfigAnswer(version=version), body=text)

    def _update(self, connection: Connection, request: Frame) -> Response:
        try:
            changed = self.settings.update(_properties(request), self.clock.now_ms())
        except InvalidSetting as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
        except InvalidInput as error:
            remark = f"Can not update config in black list. {error}"
            raise Refusal(ResponseCode.NO_PERMISSION, remark) from error
        log.info("%s changed settings: %s", connection.peer, ", ".join(sorted(changed)) or "none")
        self.apply(changed)
        return Response()

    def apply(self, changed: Collection[str]) -> None:
        """Apply changed settings where they are not read at each use."""
        self.store.apply(self.settings.store)
        self.topics.settings_changed(changed)
        if _IN_ROUTES in changed:
            self.topics.touch()
        if "logLevel" in changed:
            set_log_level(self.settings.broker.log_level)


def _properties(request: Frame) -> list[Property]:
    body = bytes(request.body)
    if len(body) > _TEXT_BYTES_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the settings have {len(body)} bytes, the limit is {_TEXT_BYTES_MAX}",
        )
    try:
        return parse(body.decode(), "the request")
    except UnicodeDecodeError as error:
        raise _unreadable(f"the settings are not UTF-8 at byte {error.start}") from error
    except InvalidSetting as error:
        raise _unreadable(str(error)) from error


def _unreadable(why: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {why}")
