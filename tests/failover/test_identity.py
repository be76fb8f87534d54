import pytest

from orbitmq.errors import InvalidInput
from orbitmq.failover.identity import Application, Identity


def test_files_have_java_s_form() -> None:
    identity = Identity("DefaultCluster", "broker-a", 7)
    assert identity.encode() == "DefaultCluster#broker-a#7"
    assert Identity.decode("DefaultCluster#broker-a#7\n") == identity
    application = Application(identity, "127.0.0.1;17")
    assert application.encode() == "DefaultCluster#broker-a#7#127.0.0.1;17"
    assert Application.decode(application.encode()) == application


@pytest.mark.parametrize("text", ["", "a#b", "a#b#c", "a#b#0", "a#b#-1", "a#b#1#x"])
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="identity"):
        Identity.decode(text)
