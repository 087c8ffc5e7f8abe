"""Client addresses as Java writes them, because ACLs compare hosts as text.

IPv4 is dotted. IPv6 is eight hexadecimal groups, without leading zeros and without ``::``. An
IPv4-mapped IPv6 address is written as IPv4. A scope follows after ``%``. Python writes ``::1``
while Java writes ``0:0:0:0:0:0:0:1``, so a DENY for such a host would otherwise never match.
"""

from functools import lru_cache
from ipaddress import IPv4Address

from log_service.common.addresses import parse_address

MAX_KNOWN_HOSTS = 4096


@lru_cache(MAX_KNOWN_HOSTS)
def java_host(host: str) -> str:
    """Return an address as ``InetAddress.getHostAddress`` writes it.

    Other text is returned unchanged.
    """
    address = parse_address(host)
    if address is None:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    _, percent, scope = host.partition("%")
    groups = (
        f"{int.from_bytes(address.packed[start : start + 2], 'big'):x}" for start in range(0, 16, 2)
    )
    return ":".join(groups) + percent + scope
