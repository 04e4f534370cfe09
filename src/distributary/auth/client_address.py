"""What an address says of who is behind it: this machine, or which client is counted. Pure."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV6_PREFIX = 64
"""An IPv6 client owns a whole network, so it has as many addresses as it likes."""


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches what listens on an address; a name may mean any but localhost."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback


def client_name(peer: str, *, exempt_loopback: bool = True) -> str:
    """Name what is counted of an address; "" when nothing is: this machine's own are not counted."""
    address = parse_address(peer)
    if address is None:
        return peer
    if address.is_loopback and exempt_loopback:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def parse_address(text: str) -> Address | None:
    """Read an address; some proxies write a port after it. One of IPv4 may be written as one of IPv6."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
