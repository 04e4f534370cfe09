"""Network addresses: where a server may listen without authorization, and how clients are counted."""

from __future__ import annotations

import ipaddress

from distributary.config import Config, Control, Gateway, Publisher
from distributary.config.server_sections import Socketio
from distributary.errors import ConfigError


def check_exposure(config: Config) -> None:
    """Raise ConfigError if a stack without authorization would be open to others.

    Others are machines that reach an address of the network, and the pages of every site that a user of this
    machine visits.
    """
    if config.auth.on:
        return
    listening: dict[str, Control | Publisher | Gateway | Socketio] = {
        "control": config.control,
        "publisher": config.publisher,
        "gateway": config.gateway,
    }
    if config.socketio.port:
        listening["socketio"] = config.socketio
    exposed = [f'{name}.host = "{it.host}"' for name, it in listening.items() if not is_loopback(it.host)]
    if exposed:
        raise ConfigError(
            f"{' and '.join(exposed)}: anyone who can reach this address could read and change all views",
            hint="Set auth.hmac_secret, auth.public_keys, auth.jwks_url or auth.keys, "
            'or listen on "127.0.0.1"',
        )
    public = [f'{name}.origins has "*"' for name, it in listening.items() if "*" in it.origins]
    if public:
        raise ConfigError(
            f"{' and '.join(public)}: pages of any site could read all views",
            hint="Name the origins of your pages, or set auth.hmac_secret, auth.public_keys, "
            "auth.jwks_url or auth.keys",
        )


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV6_PREFIX = 64
"""An IPv6 client owns a whole network, so it has as many addresses as it likes."""


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address; of names, only localhost is known to be local."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback


def client_name(peer: str, *, exempt_loopback: bool = True) -> str:
    """Return the name under which the client at an address is counted; "" for this machine, which is not."""
    address = parse_address(peer)
    if address is None:
        return peer
    if address.is_loopback and exempt_loopback:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def parse_address(text: str) -> Address | None:
    """Parse an address, with or without a port; an IPv4-mapped IPv6 address is returned as IPv4."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
