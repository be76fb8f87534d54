"""RocketMQ's own admin tool, with its own client below; the Java host imports this."""

import jpype

from tests.interop.java_types import in_haste, java_class

System = jpype.JClass("java.lang.System")
PrintStream = jpype.JClass("java.io.PrintStream")
Bytes = jpype.JClass("java.io.ByteArrayOutputStream")


def mqadmin(arguments: list[str]) -> str:
    """Run one command of mqadmin and return what it printed, on both of its outputs."""
    forget_commands()
    printed = Bytes()
    stream = PrintStream(printed, True, "UTF-8")
    output, errors = System.out, System.err
    System.setOut(stream)
    System.setErr(stream)
    try:
        with in_haste():
            java_class("MQAdminStartup").main0(jpype.JArray(jpype.JString)(arguments), None)
    finally:
        System.setOut(output)
        System.setErr(errors)
    return str(printed.toString("UTF-8"))


def forget_commands() -> None:
    """Have the tool make its commands anew: some keep their client, which is shut down by then."""
    startup = java_class("MQAdminStartup")
    for field in startup.class_.getDeclaredFields():
        if field.getType().getSimpleName() == "List":  # its name is another in each version
            field.setAccessible(True)
            field.get(None).clear()
