"""The process in which RocketMQ's own classes run: ``python -m tests.interop.java_host``.

A JVM can't be started twice in a process, so each RocketMQ version gets a process of its own. It
reads packets of inputs from its stdin, answers on what was its stdout, and ends when its stdin
does. Whatever Java prints goes to stderr, so that it never mixes with the answers.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jpype
import msgspec

from tests.interop.java_classes import class_path
from tests.interop.operations import OPERATIONS, PRINT
from tests.interop.pipe import Outcome, Request, read_packet, write_packet

Do = Callable[[Any], object]

ROOMS = (
    "admin",
    "consumers",
    "exchanges",
    "filters",
    "handles",
    "message",
    "names",
    "producers",
    "remoting",
    "transactions",
    "wire",
)
"""The modules ``java_…`` that carry operations out."""


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, required=True, help="the jars of one version")
    parser.add_argument("--home", type=Path, required=True, help="where logs may be written")
    parser.add_argument("--jvm", action="append", default=[], help="an option of the JVM")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    start_java(arguments.jars, arguments.home, arguments.jvm)
    requests = msgspec.msgpack.Decoder(Request)
    work = workers()
    while packet := read_packet(sys.stdin.buffer):
        request = requests.decode(packet)
        write_packet(answers, carry_out(request, work[request.do]))
    # Classes of RocketMQ leave threads behind that a polite end would wait for.
    jpype.JClass("java.lang.Runtime").getRuntime().halt(0)


def start_java(jars: Path, home: Path, options: Sequence[str] = ()) -> None:
    """Start the JVM over a directory of jars; what RocketMQ logs goes below ``home``."""
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>")  # 4.9's mqadmin insists
    jpype.startJVM(
        "-Xrs",  # signals are Python's
        "-Xmx256m",
        *options,
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),  # it lives for a minute or two
        # What RocketMQ's own start scripts open for Java 9 and later.
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drocketmq.client.logRoot={home}",
        # A consumer takes up queues it has just heard of, of its retry topic say, after so long.
        "-Drocketmq.client.rebalance.waitInterval=500",
        classpath=class_path(jars),
        convertStrings=False,
    )


def workers() -> dict[str, Do]:
    """Return the function that carries out each operation, by the operation's name.

    Their modules look Java's classes up, so they are imported when the JVM runs.
    """
    found = {PRINT.name: print_line}
    for room in ROOMS:
        try:
            module = importlib.import_module(f"tests.interop.java_{room}")
        except LookupError as absent:  # a client alone has no classes of servers
            print(f"without java_{room}: {absent}")
        else:
            found |= {name: do for name in OPERATIONS if (do := getattr(module, name, None))}
    return {name: found.get(name, not_here) for name in OPERATIONS}


def not_here(_value: object) -> NoReturn:
    """Refuse an operation whose classes this RocketMQ does not have."""
    raise LookupError("this RocketMQ has not the classes for it")


def print_line(text: str) -> None:
    """Have Java write a line to its standard output."""
    jpype.JClass("java.lang.System").out.println(text)


def carry_out(request: Request, do: Do) -> bytes:
    """Return the outcomes of all inputs of a request, packed."""
    takes = OPERATIONS[request.do].takes
    inputs = msgspec.msgpack.decode(request.inputs, type=list[takes])  # type: ignore[valid-type]
    return msgspec.msgpack.encode([outcome_of(do, each) for each in inputs])


def outcome_of(do: Do, value: object) -> Outcome:
    """Carry out one operation on one input; what Java throws is an answer as well."""
    try:
        return Outcome(None, msgspec.Raw(msgspec.msgpack.encode(do(value))))
    except jpype.JException as thrown:
        return Outcome(f"{thrown.getClass().getName()}: {thrown.getMessage()}")
    except LookupError as absent:  # a class or a field that this version doesn't have
        return Outcome(str(absent))


if __name__ == "__main__":
    main()
