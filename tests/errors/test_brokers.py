from orbitmq import errors
from orbitmq.errors import BrokerError, TopicNotFound

ALL = {name: getattr(errors, name) for name in errors.__all__}


def test_an_answer_becomes_the_error_of_its_code() -> None:
    error = BrokerError.of(17, "No topic route info", address="127.0.0.1:9876")
    assert type(error) is TopicNotFound
    assert (error.code, error.remark, error.address) == (
        17,
        "No topic route info",
        "127.0.0.1:9876",
    )
    assert (error.retriable, error.refresh_route) == (True, True)


def test_the_access_control_of_4_x_is_recognised_by_its_remark() -> None:
    remark = "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"
    error = BrokerError.of(1, remark)
    assert type(error) is errors.NoPermission
    assert (error.code, error.remark) == (1, remark)
    assert type(BrokerError.of(1, "disk full")) is errors.BrokerFailed


def test_a_code_without_a_class_is_a_plain_broker_error() -> None:
    error = BrokerError.of(604, None)
    assert type(error) is BrokerError
    assert str(error) == "the server answered 604: (no remark)"


def test_what_no_single_server_answered_is_told_without_one() -> None:
    error = errors.GroupNotFound(26, "no broker has group billing")
    assert str(error) == "no broker has group billing"
    assert error.code == 26


def test_two_errors_never_stand_for_one_code() -> None:
    codes = [e.default_code for e in ALL.values() if issubclass(e, BrokerError) and e.default_code]
    assert len(codes) == len(set(codes)) == len(BrokerError.by_code)
