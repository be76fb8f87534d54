"""Error responses of a server: a response code, and a remark for people.

Where Java's servers refuse a request as well, the code is the same and the remark begins with
Java's words, so that people find them in logs; then it says what to do.
"""

import logging

from orbitmq.errors import InvalidBody, InvalidHeader, OrbitError
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["Refusal", "failure", "logged_failure", "not_supported", "overload"]

log = logging.getLogger("orbitmq.net")


class Refusal(OrbitError):
    """Raised by a handler to refuse a request; answered with its code, and not an error of ours.

    >>> Refusal(17, "topic orders does not exist").response().remark
    'topic orders does not exist'
    """

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields

    def response(self) -> Response:
        """Return the response to send."""
        return Response(self.code, remark=self.remark, fields=self.fields)


def not_supported(request: Frame) -> Response:
    """Return Java's answer to an unknown request code, leading blank included."""
    return Response(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        remark=f" request type {request.code} not supported",
    )


def failure(error: Exception) -> Response:
    """Return the response to a request that failed; errors of ours need no type in the remark."""
    text = str(error) if isinstance(error, OrbitError) else f"{type(error).__name__}: {error}"
    return Response(ResponseCode.SYSTEM_ERROR, remark=text)


def logged_failure(peer: str, request: Frame, error: Exception) -> Response:
    """Log a handler's error and return the response; no traceback for an invalid request."""
    if isinstance(error, Refusal):
        log.debug("%s: %r refused: %s", peer, request, error)
        return error.response()
    if isinstance(error, InvalidHeader | InvalidBody):
        log.warning("%s: %r: %s", peer, request, error)
    else:
        log.error("%s: %r failed", peer, request, exc_info=error)
    return failure(error)


def overload(serving: int) -> Response:
    """Return the response to a request beyond the limit on requests being served."""
    return Response(
        ResponseCode.SYSTEM_BUSY,
        remark=f"[OVERLOAD]system busy, start flow control for a while: {serving} requests of this "
        "connection are being served, the limit is servingMax; try later",
    )
