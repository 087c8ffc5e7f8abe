"""Two spellings of an address are the same host, wherever addresses are compared."""

import pytest

from log_service.common.addresses import is_loopback, network_of, parse_address, plain_address


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::FFFF:c000:207", "192.0.2.7"),
        ("0:0:0:0:0:ffff:c000:0207", "192.0.2.7"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("A.Host", "A.Host"),
        ("a%b", "a%b"),
        ("", ""),
    ],
)
def test_each_address_has_one_spelling(spelled: str, plain: str) -> None:
    assert plain_address(spelled) == plain
    assert plain_address(plain) == plain


@pytest.mark.parametrize("text", ["", "a.host", "300.1.1.1", "::1::", "x" * 60_000])
def test_other_text_is_no_address(text: str) -> None:
    assert parse_address(text) is None
    assert network_of(text) == text


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:DB8:1:2:3:4:5:6%eth0", "2001:db8:1:2::"),
        ("2001:db8:1:2::", "2001:db8:1:2::"),
    ],
)
def test_one_host_may_have_all_addresses_of_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize("text", ["127.0.0.1", "127.8.0.1", "::1", "0:0::1", "::ffff:127.0.0.1"])
def test_loopback_addresses_are_recognized(text: str) -> None:
    """They are reachable from this machine only."""
    assert is_loopback(text)


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "10.0.0.1", "localhost", "", "128.0.0.1"])
def test_other_addresses_are_no_loopback(text: str) -> None:
    """A name is none, because it may stand for any address."""
    assert not is_loopback(text)
