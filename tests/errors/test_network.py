from orbitmq import errors
from orbitmq.errors import ConnectFailed, InvalidInput, NameserversFailed, NetworkError, NoRoute


def test_network_errors_may_be_tried_again_and_our_own_mistakes_may_not() -> None:
    assert NetworkError.retriable
    assert ConnectFailed.refresh_route
    assert not InvalidInput.retriable
    assert not errors.RemoteProtocolError.retriable
    assert errors.TooManyRequests.retriable


def test_what_each_nameserver_answered_is_kept_by_address() -> None:
    answers = {"10.0.0.1:9876": "no answer", "10.0.0.2:9876": "refused"}
    failed = NameserversFailed("x", answers=answers)
    assert (failed.answers, failed.address) == (answers, "10.0.0.1:9876, 10.0.0.2:9876")
    missing = NoRoute("x", topic="orders", is_missing=True, answers=answers)
    assert (missing.topic, missing.is_missing, missing.answers) == ("orders", True, answers)
    assert (missing.code, missing.retriable, missing.refresh_route) == (10005, True, True)
