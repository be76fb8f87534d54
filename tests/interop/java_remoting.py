"""Operations of RocketMQ's own remoting client, NettyRemotingClient; the Java host imports this.

A client is known by a number. What happens on its threads, such as a request it serves, is kept
until it is asked for.
"""

import itertools
from collections.abc import Callable
from typing import TypeVar

import jpype

from tests.interop.java_types import Java, java_class
from tests.interop.java_wire import from_command, to_command
from tests.interop.operations import Call, ClientOptions, Command, Serving

CompletableFuture = jpype.JClass("java.util.concurrent.CompletableFuture")
Executors = jpype.JClass("java.util.concurrent.Executors")
MILLISECONDS = jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS
NettyClientConfig = java_class("NettyClientConfig")
NettyRemotingClient = java_class("NettyRemotingClient")
RemotingCommand = java_class("RemotingCommand")
Runnable = jpype.JClass("java.lang.Runnable")
Thread = jpype.JClass("java.lang.Thread")

Method = TypeVar("Method", bound=Callable[..., object])

MARGIN_MS = 5_000
"""How much longer than the client itself we wait for its callback."""


def override(method: Method) -> Method:
    """Mark a method as one that Java calls; JPype's own mark, with a type."""
    marked: Method = jpype.JOverride(method)
    return marked


@jpype.JImplements(Runnable)
class Shutdown:
    """Shuts a client down, on a thread of Java."""

    def __init__(self, remoting: Java) -> None:
        self._remoting = remoting

    @override
    def run(self) -> None:
        """Do it."""
        self._remoting.shutdown()


class Client:
    """A client that runs, and what happened to it."""

    def __init__(self, options: ClientOptions) -> None:
        settings = NettyClientConfig()
        settings.setUseTLS(options.tls)
        self.events: list[str] = []
        self.served: list[Command] = []
        self.executor = Executors.newSingleThreadExecutor()
        self.remoting = NettyRemotingClient(settings, ChannelEvents(self.events))
        self.remoting.start()


clients: dict[int, Client] = {}
numbers = itertools.count(1)


def open_client(options: ClientOptions) -> int:
    """Start a client and return its number."""
    number = next(numbers)
    clients[number] = Client(options)
    return number


def close_client(number: int) -> None:
    """Have a client shut down. It takes three seconds over it, so nobody waits."""
    client = clients.pop(number)
    Thread(Shutdown(client.remoting)).start()
    client.executor.shutdown()


def invoke(call: Call) -> list[Command]:
    """Send requests one after another; return the answers."""
    remoting = clients[call.client].remoting
    return [
        from_command(remoting.invokeSync(call.address, to_command(command), call.timeout_ms))
        for command in call.commands
    ]


def invoke_at_once(call: Call) -> list[Command]:
    """Send all requests before the first answer is looked at; return the answers."""
    remoting = clients[call.client].remoting
    answers = []
    for command in call.commands:
        answer = CompletableFuture()
        callback = Completion(answer)
        remoting.invokeAsync(call.address, to_command(command), call.timeout_ms, callback)
        answers.append(answer)
    return [
        from_command(answer.get(call.timeout_ms + MARGIN_MS, MILLISECONDS)) for answer in answers
    ]


def invoke_oneway(call: Call) -> None:
    """Send requests that want no answer."""
    remoting = clients[call.client].remoting
    for command in call.commands:
        remoting.invokeOneway(call.address, to_command(command), call.timeout_ms)


def serve(serving: Serving) -> None:
    """Have a client answer requests of a code, and keep them."""
    client = clients[serving.client]
    client.remoting.registerProcessor(serving.code, Echo(client.served), client.executor)


def served(number: int) -> list[Command]:
    """Return the requests that a client has served."""
    return list(clients[number].served)


def channel_events(number: int) -> list[str]:
    """Return what a client was told of its connections: ``CONNECT``, ``CLOSE`` and the like."""
    return list(clients[number].events)


@jpype.JImplements(java_class("InvokeCallback"))
class Completion:
    """Completes a future with the answer, or with why there is none."""

    def __init__(self, answer: Java) -> None:
        self._answer = answer

    @override
    def operationComplete(self, future: Java) -> None:  # noqa: N802
        """Take the outcome, the only call that 4.9 makes and the last that 5.x does."""
        response = future.getResponseCommand()
        if response is not None:
            self._answer.complete(response)
        else:
            cause = future.getCause() or jpype.JClass("java.io.IOException")("no answer")
            self._answer.completeExceptionally(cause)


@jpype.JImplements(java_class("NettyRequestProcessor"))
class Echo:
    """Answers a request with its own fields and body."""

    def __init__(self, served: list[Command]) -> None:
        self._served = served

    @override
    def processRequest(self, context: Java, request: Java) -> Java:  # noqa: N802
        """Return the answer; the client sends it."""
        self._served.append(from_command(request))
        answer = RemotingCommand.createResponseCommand(0, "served by Java")
        answer.setExtFields(request.getExtFields())
        answer.setBody(request.getBody())
        return answer

    @override
    def rejectRequest(self) -> bool:  # noqa: N802
        """Tell that we are never too busy."""
        return False


@jpype.JImplements(java_class("ChannelEventListener"))
class ChannelEvents:
    """Keeps the names of what happens to a client's connections."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    @override
    def onChannelConnect(self, address: Java, channel: Java) -> None:  # noqa: N802
        """Note that a connection stands."""
        self._events.append("CONNECT")

    @override
    def onChannelClose(self, address: Java, channel: Java) -> None:  # noqa: N802
        """Note that a connection is closed."""
        self._events.append("CLOSE")

    @override
    def onChannelException(self, address: Java, channel: Java) -> None:  # noqa: N802
        """Note that a connection broke."""
        self._events.append("EXCEPTION")

    @override
    def onChannelIdle(self, address: Java, channel: Java) -> None:  # noqa: N802
        """Note that a connection was silent for long."""
        self._events.append("IDLE")

    @override
    def onChannelActive(self, address: Java, channel: Java) -> None:  # noqa: N802
        """Note that a connection can be used; 4.9 has no such event."""
        self._events.append("ACTIVE")
