from unittest.mock import Mock

import pytest

from orbitmq.net.connection import Connection
from orbitmq.net.handlers import Handlers
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.session import Response


def serve(_connection: Connection, request: Frame) -> Response:
    return Response(remark=f"served {request.code}")


def request(code: int) -> Frame:
    return Frame(code, 1, 0, 0, "JAVA", None, {}, b"", HeaderEncoding.JSON)


def test_a_request_goes_to_the_handler_of_its_code() -> None:
    handlers = Handlers({RequestCode.SEND_MESSAGE: serve}, {RequestCode.PULL_MESSAGE: serve})
    assert handlers.codes == {RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE}
    assert handlers(Mock(), request(11)) == Response(remark="served 11")


def test_a_code_without_a_handler_is_answered_so() -> None:
    answer = Handlers()(Mock(), request(4711))
    assert isinstance(answer, Response)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "4711" in (answer.remark or "")


def test_two_handlers_for_one_code_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="SEND_MESSAGE has two"):
        Handlers({10: serve}, {10: serve})
