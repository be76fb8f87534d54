"""The keyword arguments of a producer: the fields of both settings, typed for editors."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypedDict

from orbitmq.client.field_types import shown
from orbitmq.client.settings import (
    AccessChannel,
    AddressMap,
    ClientSettings,
    FaultTolerance,
    ProducerSettings,
    Require,
)
from orbitmq.errors import InvalidInput
from orbitmq.message.compression import CompressionType
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import TlsContext

__all__ = ["ClientOptions", "ProducerOptions", "build_settings"]


class ClientOptions(TypedDict, total=False):
    """The fields of ``ClientSettings``, which documents them."""

    nameserver: str
    nameserver_url: str
    address_map: AddressMap | None
    client_ip: str
    instance_name: str
    unit_name: str
    unit_mode: bool
    namespace: str
    namespace_v2: str
    access_channel: AccessChannel | str
    access_key: str
    secret_key: str
    security_token: str
    tls: bool
    tls_verify: bool
    tls_ca_file: str
    tls_cert_file: str
    tls_key_file: str
    tls_key_password: str
    ssl_context: TlsContext | None
    vip_channel: bool
    poll_nameserver_interval_ms: int
    heartbeat_interval_ms: int
    request_timeout_ms: int
    net: NetSettings | None


class ProducerOptions(ClientOptions, total=False):
    """The fields of ``ProducerSettings`` as well; ``linger_ms`` is that of automatic batching."""

    send_timeout_ms: int
    per_try_timeout_ms: int | None
    retries: int
    retry_codes: tuple[int, ...]
    retry_another_broker_when_not_stored: bool
    retry_same_queue: bool
    require: Require | str | None
    stop_timeout_ms: int
    topics: tuple[str, ...] | list[str]
    create_topic_key: str
    default_topic_queues: int
    max_message_bytes: int
    compress_over_bytes: int
    compression_type: CompressionType | str
    compression_level: int
    short_header: bool
    fault_tolerance: FaultTolerance | str
    detector: bool
    detect_interval_ms: int
    detect_timeout_ms: int
    in_flight_max: int
    in_flight_bytes_max: int
    auto_batch: bool
    linger_ms: int
    batch_bytes: int
    total_bytes: int
    trace: bool
    trace_topic: str
    trace_batch_max: int
    trace_queue_max: int
    outbox_path: str | os.PathLike[str]
    outbox_bytes_max: int


def build_settings(
    group: str | None,
    options: Mapping[str, Any],
    producer: ProducerSettings | None = None,
    client: ClientSettings | None = None,
) -> tuple[ProducerSettings, ClientSettings]:
    """Return both settings; options override the fields of given settings objects.

    Raise InvalidInput if a name is unknown; the error suggests a similar one.

    >>> producer, client = build_settings("billing", {"retries": 0, "nameserver": "ns-1:9876"})
    >>> producer.retries, client.nameserver
    (0, 'ns-1:9876')
    """
    _check_whole("settings", producer, ProducerSettings)
    _check_whole("client", client, ClientSettings)
    of_producer, of_client = ProducerSettings.__struct_fields__, ClientSettings.__struct_fields__
    for name in options:
        if name not in of_producer and name not in of_client:
            nearest = get_close_matches(name, (*of_producer, *of_client), n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise InvalidInput(f"a producer has no option {name[:60]}{hint}", field=name[:60])
    for_producer = {name: value for name, value in options.items() if name in of_producer}
    if group is not None:
        for_producer["group"] = group
    for_client = {name: value for name, value in options.items() if name not in of_producer}
    return (
        _with(producer or ProducerSettings(), for_producer),
        _with(client or ClientSettings(), for_client),
    )


def _check_whole(field: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise InvalidInput(
            f"{field} is {shown(given)}; it must be {kind.__name__}(…); or give its fields as "
            "keyword arguments",
            field=field,
        )


def _with(settings: Any, changes: Mapping[str, Any]) -> Any:
    # Not msgspec.structs.replace, which copies without checking.
    before = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return type(settings)(**{**before, **changes}) if changes else settings
