from orbitmq.errors import InvalidHeader, RemoteProtocolError


def test_a_bad_header_is_the_peers_fault_and_names_its_field() -> None:
    error = InvalidHeader("x", field="queueId")
    assert isinstance(error, RemoteProtocolError)
    assert (error.field, error.position) == ("queueId", 0)
