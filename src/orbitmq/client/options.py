"""The keyword arguments of a client, typed for editors, and how settings are built from them."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypedDict, TypeVar

import msgspec

from orbitmq.client.field_types import shown
from orbitmq.client.settings import AccessChannel, AddressMap, ClientSettings
from orbitmq.errors import InvalidInput
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import TlsContext

__all__ = ["ClientOptions", "build_both", "build_client_settings"]

S = TypeVar("S", bound=msgspec.Struct)


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
    keep_open_ms: int
    net: NetSettings | None


def build_client_settings(
    options: Mapping[str, Any], client: ClientSettings | None, owner: str
) -> ClientSettings:
    """Return the settings of a client without others; options override the fields of ``client``.

    >>> build_client_settings({"nameserver": "ns-1:9876"}, None, "an admin").nameserver
    'ns-1:9876'
    """
    _check_whole("client", client, ClientSettings)
    _check_names(options, ClientSettings.__struct_fields__, owner)
    return _with(ClientSettings, client, options)


def build_both(
    kind: type[S],
    owner: str,
    group: str | None,
    options: Mapping[str, Any],
    own: S | None = None,
    client: ClientSettings | None = None,
) -> tuple[S, ClientSettings]:
    """Return the settings of a producer or consumer, and those of its client.

    Options override the fields of given settings objects; ``owner`` is for errors, as "a producer".
    Raise InvalidInput if a name is unknown; the error suggests a similar one.
    """
    _check_whole("settings", own, kind)
    _check_whole("client", client, ClientSettings)
    of_own, of_client = kind.__struct_fields__, ClientSettings.__struct_fields__
    _check_names(options, (*of_own, *of_client), owner)
    for_own = {name: value for name, value in options.items() if name in of_own}
    if group is not None:
        for_own["group"] = group
    for_client = {name: value for name, value in options.items() if name not in of_own}
    return _with(kind, own, for_own), _with(ClientSettings, client, for_client)


def _check_names(options: Iterable[str], known: tuple[str, ...], owner: str) -> None:
    for name in options:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise InvalidInput(f"{owner} has no option {name[:60]}{hint}", field=name[:60])


def _check_whole(field: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise InvalidInput(
            f"{field} is {shown(given)}; it must be {kind.__name__}(…); or give its fields as "
            "keyword arguments",
            field=field,
        )


def _with(kind: type[S], settings: S | None, changes: Mapping[str, Any]) -> S:
    # Not msgspec.structs.replace, which copies without checking.
    if settings is None:
        return kind(**changes)
    before = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return kind(**{**before, **changes}) if changes else settings
