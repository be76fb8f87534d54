"""How a handler says no: with a response code and a remark for people."""

from orbitmq.errors import OrbitError
from orbitmq.wire.session import Response

__all__ = ["Refusal"]


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
