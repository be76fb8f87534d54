"""Java's basic values, made from Python's and back, and RocketMQ's classes by simple name.

Only the Java host imports this: it needs a running JVM.
"""

import contextlib
import functools
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import jpype

Java: TypeAlias = Any
"""An object or a class of Java, of which mypy knows nothing."""

ByteArray = jpype.JArray(jpype.JByte)
CharArray = jpype.JArray(jpype.JChar)
ByteBuffer = jpype.JClass("java.nio.ByteBuffer")
HashMap = jpype.JClass("java.util.HashMap")
Thread = jpype.JClass("java.lang.Thread")
String = jpype.JClass("java.lang.String")

HEARTBEAT_MS = 1_000
"""How soon a broker that was away hears of a client of 4.9 again; Java's own is half a minute."""


def java_class(name: str) -> Java:
    """Return RocketMQ's class of a simple name; LookupError if the version has none."""
    full_name = class_names().get(name)
    if full_name is None:
        raise LookupError(f"this RocketMQ has no class {name}")
    return jpype.JClass(full_name)


@contextlib.contextmanager
def in_haste() -> Iterator[None]:
    """Keep clients of 5.x from dawdling over their end.

    Each waits for a thread of its own that looks up every three seconds; it is woken.
    """
    done = threading.Event()

    def wake() -> None:
        while not done.wait(0.05):
            for thread in Thread.getAllStackTraces().keySet():
                if str(thread.getName()).startswith("NettyEventExecutor"):
                    thread.interrupt()

    waker = threading.Thread(target=wake, daemon=True)
    waker.start()
    try:
        yield
    finally:
        done.set()
        waker.join()


def has_class(name: str) -> bool:
    """Tell whether this version of RocketMQ has a class of a simple name."""
    return name in class_names()


@functools.cache
def class_names() -> dict[str, str]:
    """Index the classes of RocketMQ's own jars; where names clash, the protocol's class wins."""
    class_path = str(jpype.JClass("java.lang.System").getProperty("java.class.path"))
    jars = [jar for jar in class_path.split(os.pathsep) if "rocketmq-" in os.path.basename(jar)]
    found: dict[str, str] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.startswith("org/apache/rocketmq/") and entry.endswith(".class"):
                    full_name = entry.removesuffix(".class").replace("/", ".")
                    name = full_name.rpartition(".")[2]
                    if name not in found or ".protocol." in full_name:
                        found[name] = full_name
    return found


def to_string(units: bytes) -> Java:
    """Make a Java string of UTF-16 units, lone surrogates as they are."""
    pairs = zip(units[::2], units[1::2], strict=True)
    return String(CharArray([high << 8 | low for high, low in pairs]))


def bytes_or_none(value: Java) -> bytes | None:
    """Return the content of a Java byte array, None for null."""
    return None if value is None else bytes(value)


def text_or_none(value: Java) -> str | None:
    """Return the text of a Java string, None for null."""
    return None if value is None else str(value)


def to_map(texts: Mapping[str, str | None]) -> Java:
    """Make a Java HashMap of texts."""
    result = HashMap()
    for name, value in texts.items():
        result.put(name, value)
    return result


def from_map(texts: Java) -> dict[str, str]:
    """Return a Java map of texts as a dict; null gives an empty one."""
    if texts is None:
        return {}
    return {str(entry.getKey()): str(entry.getValue()) for entry in texts.entrySet()}


def buffer(content: bytes) -> Java:
    """Wrap bytes in a Java ByteBuffer."""
    return ByteBuffer.wrap(ByteArray(content))
