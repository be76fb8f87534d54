"""RocketMQ's own admin tool, with its own client below; the Java host imports this."""

import contextlib
import threading
from collections.abc import Iterator

import jpype

from tests.interop.java_types import Java, Thread, in_haste, java_class

System = jpype.JClass("java.lang.System")
PrintStream = jpype.JClass("java.io.PrintStream")
Bytes = jpype.JClass("java.io.ByteArrayOutputStream")

LINES = {"clusterRT": 2}
"""Commands that go on until they are interrupted, and how many lines are enough."""


def mqadmin(arguments: list[str]) -> str:
    """Run one command of mqadmin and return what it printed, on both of its outputs.

    Without arguments it lists its commands.
    """
    forget_commands()
    printed = Bytes()
    stream = PrintStream(printed, True, "UTF-8")
    output, errors = System.out, System.err
    System.setOut(stream)
    System.setErr(stream)
    try:
        with in_haste(), interrupted(arguments, printed):
            java_class("MQAdminStartup").main0(jpype.JArray(jpype.JString)(arguments), None)
    finally:
        System.setOut(output)
        System.setErr(errors)
    return str(printed.toString("UTF-8"))


@contextlib.contextmanager
def interrupted(arguments: list[str], printed: Java) -> Iterator[None]:
    """Interrupt this thread when an endless command has printed enough."""
    enough = LINES.get(arguments[0]) if arguments else None
    if enough is None:
        yield
        return
    done, runs_it = threading.Event(), Thread.currentThread()

    def watch() -> None:
        while not done.wait(0.05):
            if bytes(printed.toByteArray()).count(b"\n") >= enough:
                runs_it.interrupt()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        Thread.interrupted()


def forget_commands() -> None:
    """Have the tool make its commands anew: some keep their client, which is shut down by then."""
    startup = java_class("MQAdminStartup")
    for field in startup.class_.getDeclaredFields():
        if field.getType().getSimpleName() == "List":  # its name is another in each version
            field.setAccessible(True)
            field.get(None).clear()
