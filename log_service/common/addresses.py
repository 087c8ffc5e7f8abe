"""One spelling for each IP address, because limits, quotas and ACLs compare addresses as text.

This module decides which spellings are the same host. An IPv4-mapped IPv6 address is its IPv4
address. Case and compression make no difference. A zone (``%eth0``) is dropped, as in Java's
``Inet6Address.equals``. ``java_host`` in ``security.acls`` keeps the zone, because Java's
``getHostAddress`` writes it. Invariant: text that is not an address is returned unchanged, because
it may be the name of a host.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

IPV6_NETWORK_BITS: Final = 64
"""The part of an IPv6 address that names a network. One host may use every address in it."""

Address = IPv4Address | IPv6Address


def parse_address(text: str) -> Address | None:
    """Return the address in a text, without its zone, or None if the text is not an address."""
    try:
        return unmapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def unmapped(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address, or any other address unchanged."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def plain_address(text: str) -> str:
    """Return an address in its usual spelling, and other text unchanged."""
    address = parse_address(text)
    return text if address is None else str(address)


def network_of(text: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address, and other text unchanged."""
    address = parse_address(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), IPV6_NETWORK_BITS), strict=False).network_address)
    return text if address is None else str(address)


def is_loopback(text: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    address = parse_address(text)
    return address is not None and address.is_loopback
