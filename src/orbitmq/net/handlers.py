"""Dispatch of requests to handlers by request code."""

from collections.abc import Mapping

from orbitmq.net.connection import Connection, Handler, Outcome
from orbitmq.net.refusal import not_supported
from orbitmq.wire.codes import name_of_request
from orbitmq.wire.frame import Frame

__all__ = ["Handlers"]


class Handlers:
    """A handler that passes each request to the handler of its code; tables share no code."""

    def __init__(self, *tables: Mapping[int, Handler]) -> None:
        self._by_code: dict[int, Handler] = {}
        for table in tables:
            for code, handler in table.items():
                if code in self._by_code:
                    raise ValueError(f"{name_of_request(code)} has two handlers")
                self._by_code[code] = handler

    def __repr__(self) -> str:
        return f"<Handlers of {len(self._by_code)} codes>"

    @property
    def codes(self) -> frozenset[int]:
        """The request codes that are served."""
        return frozenset(self._by_code)

    def __call__(self, connection: Connection, request: Frame) -> Outcome:
        """Serve one request; a code without a handler is answered "not supported"."""
        handler = self._by_code.get(request.code)
        if handler is None:
            return not_supported(request)
        return handler(connection, request)
