"""Requests of operators: keys of the KV config, and settings of the nameserver.

Serves PUT_, GET_ and DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE, GET_ and UPDATE_NAMESRV_CONFIG
(``DefaultRequestProcessor`` in Java). Only settings on a list can be updated; in Java, all but a
few. As in Java they are written to the nameserver's file, if it was started with one.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import InvalidBody, InvalidSetting
from orbitmq.logs import set_log_level
from orbitmq.nameserver.kv_file import SavedKVConfig
from orbitmq.nameserver.settings import LiveSettings
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.net.settings_file import SettingsFile
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    DeleteKVConfig,
    GetKVConfig,
    GetKVConfigAnswer,
    GetKVListByNamespace,
    PutKVConfig,
)
from orbitmq.wire.json.properties_text import properties_of_body, properties_to_text
from orbitmq.wire.session import Response

__all__ = ["ConfigHandlers"]

log = logging.getLogger("orbitmq.nameserver")


@dataclass(kw_only=True, eq=False)
class ConfigHandlers:
    """Serves requests of operators."""

    saved: SavedKVConfig
    settings: LiveSettings
    file: SettingsFile

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list_namespace,
            RequestCode.GET_NAMESRV_CONFIG: self.get_settings,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_settings,
        }

    async def put(self, connection: Connection, request: Frame) -> Response:
        """Set a key; answered when it is on disk."""
        asked = request.read(PutKVConfig)
        self.saved.config.put(asked.namespace, asked.key, asked.value)
        log.info("%s set key %.200s %.200s", connection.peer, asked.namespace, asked.key)
        await self.saved.save()
        return Response()

    def get(self, _connection: Connection, request: Frame) -> Response:
        """Return the value of a key."""
        asked = request.read(GetKVConfig)
        value = self.saved.config.get(asked.namespace, asked.key)
        if value is None:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {asked.namespace} Key: {asked.key}",
            )
        return Response(header=GetKVConfigAnswer(value=value))

    async def delete(self, connection: Connection, request: Frame) -> Response:
        """Delete a key if it exists; answered when that is on disk."""
        asked = request.read(DeleteKVConfig)
        self.saved.config.delete(asked.namespace, asked.key)
        log.info("%s deleted key %.200s %.200s", connection.peer, asked.namespace, asked.key)
        await self.saved.save()
        return Response()

    def list_namespace(self, _connection: Connection, request: Frame) -> Response:
        """Return all keys of a namespace."""
        namespace = request.read(GetKVListByNamespace).namespace
        keys = self.saved.config.namespace(namespace)
        if keys is None:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return Response(body=KVTable(table=keys).to_json())

    def get_settings(self, _connection: Connection, _request: Frame) -> Response:
        """Return the current settings."""
        return Response(body=properties_to_text(self.settings.texts()))

    async def update_settings(self, connection: Connection, request: Frame) -> Response:
        """Change settings: all in the body, or none; answered when they are in the file."""
        try:
            properties = properties_of_body(request.body)
        except InvalidBody as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from error
        try:
            if why := self.settings.why_fixed(properties):
                remark = f"Can not update config in black list. {why}"
                raise Refusal(ResponseCode.NO_PERMISSION, remark)
            self.settings.update(properties)
        except InvalidSetting as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
        names = [one.name for one in properties]
        log.info("%s changed %s", connection.peer, ", ".join(names))
        if "logLevel" in names:
            set_log_level(self.settings.now.log_level)
        await self.file.save(properties)
        return Response()
