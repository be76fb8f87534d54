"""Which addresses other machines reach."""

import pytest

from orbitmq.errors import InvalidInput
from orbitmq.net.exposure import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LocalHost"])
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, insecure=False)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.7", "broker.example", "::ffff:1.2.3.4"]
)
def test_another_address_has_to_be_allowed(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(InvalidInput, match="127.0.0.1, or add --insecure"):
        check_exposure(host, insecure=False)
    check_exposure(host, insecure=True)


def test_an_ipv4_address_in_ipv6_clothes_is_what_it_is() -> None:
    assert is_loopback("::ffff:127.0.0.1")
