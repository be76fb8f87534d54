"""How a server says no: with a response code and a remark for people.

Where Java's servers refuse too, the code is theirs and the remark begins with their words, which
people look for in logs; what to do about it follows in ours.
"""

import logging

from orbitmq.errors import InvalidBody, InvalidHeader, OrbitError
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["Refusal", "failure", "not_supported", "overload", "told_failure"]

log = logging.getLogger("orbitmq.net")


class Refusal(OrbitError):
    """A request that is understood and not carried out. The peer is told; it is no fault of ours.

    >>> Refusal(17, "topic orders does not exist").response()
    Response(code=17, header=None, body=b'', remark='topic orders does not exist', fields=None)
    """

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields

    def response(self) -> Response:
        """Return the answer that says so."""
        return Response(self.code, remark=self.remark, fields=self.fields)


def not_supported(request: Frame) -> Response:
    """Return Java's answer to an unknown request code, leading blank included."""
    return Response(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        remark=f" request type {request.code} not supported",
    )


def failure(error: Exception) -> Response:
    """Return the answer to a request that failed; an error of ours speaks for itself."""
    text = str(error) if isinstance(error, OrbitError) else f"{type(error).__name__}: {error}"
    return Response(ResponseCode.SYSTEM_ERROR, remark=text)


def told_failure(peer: str, request: Frame, error: Exception) -> Response:
    """Log a handler's error, and return the answer; no traceback if the request is to blame."""
    if isinstance(error, Refusal):
        log.debug("%s: %r is refused: %s", peer, request, error)
        return error.response()
    if isinstance(error, InvalidHeader | InvalidBody):
        log.warning("%s: %r: %s", peer, request, error)
    else:
        log.error("%s: %r failed", peer, request, exc_info=error)
    return failure(error)


def overload(serving: int) -> Response:
    """Return the answer to one request too many, where so many of the peer are in the making."""
    return Response(
        ResponseCode.SYSTEM_BUSY,
        remark=f"[OVERLOAD]system busy, start flow control for a while: {serving} requests of this "
        "connection are not answered yet, as many as servingMax allows; try later",
    )
