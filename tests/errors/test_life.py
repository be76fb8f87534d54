from orbitmq.errors import MissingExtra, NotRunning, OutboxFull, ProducerClosed


def test_a_missing_package_is_an_import_error_that_says_what_to_install() -> None:
    error = MissingExtra("reading LZ4 bodies", extra="lz4")
    assert isinstance(error, ImportError)
    assert str(error) == "reading LZ4 bodies needs an extra package: pip install 'orbitmq[lz4]'"


def test_a_closed_producer_is_one_that_does_not_run() -> None:
    error = ProducerClosed("closed", state="closed")
    assert isinstance(error, NotRunning)
    assert error.state == "closed"


def test_a_full_outbox_names_its_file_and_may_be_tried_again() -> None:
    error = OutboxFull("full", path="outbox")
    assert (error.path, error.retriable) == ("outbox", True)
