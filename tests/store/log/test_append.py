from orbitmq.message.host import Host
from orbitmq.store.log.append import PutResult, PutStatus


def test_what_disk_or_replicas_did_not_achieve_in_time_is_stored_all_the_same() -> None:
    stored = {status for status in PutStatus if status.is_stored}
    late = {PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE}
    assert stored == {PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT, *late}


def test_the_ids_of_a_batch_are_joined_by_commas() -> None:
    result = PutResult(status=PutStatus.PUT_OK, offsets=(0, 255))
    assert result.message_ids(Host.parse("127.0.0.1:10911")) == (
        "7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000FF"
    )
