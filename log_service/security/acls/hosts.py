"""The addresses of clients as Java writes them: an ACL names a host so, and it is compared as text.

IPv4 is dotted. IPv6 is eight groups in hexadecimal, without leading zeros and without ``::``; an IPv4 address that is mapped into IPv6 is
written as IPv4; a scope follows behind ``%``. Python writes ``::1`` where Java writes ``0:0:0:0:0:0:0:1``: without this module a rule that
denies such a host would deny nothing.
"""

from functools import lru_cache
from ipaddress import IPv4Address, ip_address

MAX_KNOWN_HOSTS = 4096


@lru_cache(MAX_KNOWN_HOSTS)
def java_host(host: str) -> str:
    """Return an address as ``InetAddress.getHostAddress`` writes it. What is no address is returned as it is."""
    text, percent, scope = host.partition("%")
    try:
        address = ip_address(text)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = (f"{int.from_bytes(address.packed[start : start + 2], 'big'):x}" for start in range(0, 16, 2))
    return ":".join(groups) + percent + scope
