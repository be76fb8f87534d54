import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.message.host import Host

IP_BYTES = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.0.0.1:10911", Host(b"\x7f\x00\x00\x01", 10911)),
        ("[::1]:10911", Host(bytes(15) + b"\x01", 10911)),
        ("0.0.0.0:0", Host(bytes(4), 0)),
        ("[2001:db8::1]:65535", Host(bytes.fromhex("20010db8" + "00" * 11 + "01"), 65535)),
    ],
)
def test_text_both_ways(text: str, host: Host) -> None:
    assert Host.parse(text) == host
    assert str(host) == text
    assert host.is_ipv6 == text.startswith("[")


def test_zone_of_an_ipv6_address_is_dropped() -> None:
    assert Host.parse("[fe80::1%eth0]:1") == Host.parse("[fe80::1]:1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost:10911", "resolve host names first"),
        ("127.0.0.1", "the port is missing"),
        ("127.0.0.1:", "from 0 to 65535"),
        ("127.0.0.1:65536", "from 0 to 65535"),
        ("127.0.0.1:99999999999999999999", "from 0 to 65535"),
        ("127.0.0.1:-1", "from 0 to 65535"),
        ("127.0.0.1:٣", "from 0 to 65535"),
        ("::1:10911", "in brackets"),
        ("[127.0.0.1]:1", "is not an IP address"),
        ("1.2.3:1", "is not an IP address"),
        (":1", "is not an IP address"),
    ],
)
def test_refused_text_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        Host.parse(text)
    assert (caught.value.field, caught.value.length) == ("host", len(text))


@given(IP_BYTES, st.integers(0, 65535))
def test_any_host_reads_back(ip: bytes, port: int) -> None:
    host = Host(ip, port)
    assert Host.parse(str(host)) == host
