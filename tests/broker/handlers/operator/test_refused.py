"""What the broker does not have is refused in Java's words, with the reason."""

import pytest

from orbitmq.broker.handlers.operator import refused
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import NoFields
from tests.broker.world import ask


@pytest.mark.parametrize("code", refused.REASONS)
def test_a_refusal_begins_as_javas_and_has_the_reason(code: int) -> None:
    answer = ask(refused.table(), NoFields(), code=code)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == f" request type {code} not supported; {refused.REASONS[code]}"
