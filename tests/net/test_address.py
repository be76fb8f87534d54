import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        (" broker-a.local:0 ", "broker-a.local", 0),
        ("[::1]:65535", "::1", 65535),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "host:port"),
        ("127.0.0.1", "host:port"),
        (":9876", "host:port"),
        ("host:", "host:port"),
        ("host:port", "host:port"),
        ("host:-1", "host:port"),
        ("host:²", "host:port"),
        ("host:٣", "host:port"),
        ("host:65536", "over 65535"),
        ("host:" + "9" * 5000, "over 65535"),
        ("::1:9876", "in brackets"),
        ("host-a:9876,host-b:9876", "write ; between addresses"),
    ],
)
def test_a_text_that_is_no_address_is_refused_with_the_form(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        Address.parse(text)
    assert caught.value.field == "address"


@given(st.ip_addresses().map(str), st.integers(0, 65535))
def test_what_is_written_is_read(host: str, port: int) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


def test_an_address_may_be_written_as_an_endpoint() -> None:
    assert parse_addresses("http://MQ_INST_1.names:80; b:1;b:1;") == (
        Address("MQ_INST_1.names", 80),
        Address("b", 1),
    )
