"""Settings for operators: GET_BROKER_CONFIG, UPDATE_BROKER_CONFIG, SET_COMMITLOG_READ_MODE.

Java allows changes of all but a few settings; here `orbitmq.broker.settings.UPDATABLE` lists those
that can change. As in Java a change is written to the broker's file, if it was started with one.
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
from orbitmq.net.settings_file import SettingsFile
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
_READ_MODES: Final = {"0": "true", "1": "false"}  # MADV_NORMAL and MADV_RANDOM of madvise


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ConfigHandlers:
    """Serves requests about the settings."""

    settings: LiveSettings
    topics: Topics
    store: MessageStore
    clock: Clock
    file: SettingsFile

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_CONFIG: self._get,
            RequestCode.UPDATE_BROKER_CONFIG: self._update,
            RequestCode.SET_COMMITLOG_READ_MODE: self._set_read_mode,
        }

    def _get(self, _connection: Connection, _request: Frame) -> Response:
        version = self.settings.data_version.to_json().decode()
        text = properties_to_text(self.settings.as_properties())
        return Response(header=GetBrokerConfigAnswer(version=version), body=text)

    async def _update(self, connection: Connection, request: Frame) -> Response:
        given = _properties(request)
        try:
            changed = self.settings.update(given, self.clock.now_ms())
        except InvalidSetting as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
        except InvalidInput as error:
            remark = f"Can not update config in black list. {error}"
            raise Refusal(ResponseCode.NO_PERMISSION, remark) from error
        log.info("%s changed settings: %s", connection.peer, ", ".join(sorted(changed)) or "none")
        self.apply(changed)
        await self.file.save(given)
        return Response()

    def apply(self, changed: Collection[str]) -> None:
        """Apply changed settings where they are not read at each use."""
        self.store.apply(self.settings.store)
        self.topics.settings_changed(changed)
        if _IN_ROUTES in changed:
            self.topics.touch()
        if "logLevel" in changed:
            set_log_level(self.settings.broker.log_level)

    def _set_read_mode(self, connection: Connection, request: Frame) -> Response:
        """Turn read-ahead on or off until the broker stops, as Java does."""
        mode = request.texts().get("READ_AHEAD_MODE") or ""
        if mode not in _READ_MODES:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"set commitlog readahead mode param value error: {mode[:64]!r} is not 0 or 1",
            )
        change = Property("dataReadAheadEnable", _READ_MODES[mode], "the request")
        self.settings.update([change], self.clock.now_ms())
        self.store.apply(self.settings.store)
        log.info("%s set dataReadAheadEnable=%s", connection.peer, change.value)
        return Response(remark=f"set commitlog readahead mode success, mode: {mode}")


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
