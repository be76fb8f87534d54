"""Java properties as text: the body of GET_ and UPDATE_…_CONFIG, and RocketMQ's files.

They are parsed by ``orbitmq.settings``, with Java's rules.
"""

from collections.abc import Mapping

from orbitmq.errors import InvalidBody, InvalidSetting
from orbitmq.settings import Property, parse, to_line

__all__ = ["properties_from_text", "properties_of_body", "properties_to_text"]

_SOURCE = "properties"


def properties_to_text(properties: Mapping[str, str]) -> bytes:
    r"""Return one line per property, sorted by key, see `orbitmq.settings.to_line`.

    >>> properties_to_text({"listenPort": "10911", "brokerName": "a=b"})
    b'brokerName=a=b\nlistenPort=10911\n'
    """
    return "".join(to_line(*item) for item in sorted(properties.items())).encode("ascii")


def properties_from_text(text: bytes | memoryview) -> dict[str, str]:
    r"""Parse properties; of a repeated key the last one wins.

    Raises `InvalidBody` if the text is not UTF-8 or an escape is incomplete.

    >>> properties_from_text(b"# a comment\nbrokerIP1 : 10.0.0.7\nnames=a,\\\n   b\n")
    {'brokerIP1': '10.0.0.7', 'names': 'a,b'}
    """
    return {one.name: one.value for one in properties_of_body(text)}


def properties_of_body(text: bytes | memoryview) -> list[Property]:
    """Parse properties with their line numbers, for `orbitmq.settings.build`.

    Raises `InvalidBody` if the text is not UTF-8 or an escape is incomplete.
    """
    try:
        return parse(bytes(text).decode(), _SOURCE)
    except UnicodeDecodeError as error:
        raise InvalidBody(
            f"properties are not UTF-8 at byte {error.start}", position=error.start
        ) from error
    except InvalidSetting as error:
        raise InvalidBody(str(error)) from error
