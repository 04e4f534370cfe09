"""An open stack listens on this machine only."""

from __future__ import annotations

import ipaddress

from distributary.config import Config
from distributary.errors import ConfigError


def check_exposure(config: Config) -> None:
    """Raise ConfigError when the stack would be open to others: an address of the network, no permission."""
    if config.permit.on:
        return
    hosts = {
        "control.host": config.control.host,
        "publisher.host": config.publisher.host,
        "gateway.host": config.gateway.host,
    }
    if config.socketio.port:
        hosts["socketio.host"] = config.socketio.host
    open_ones = [f'{name} = "{host}"' for name, host in hosts.items() if not is_loopback(host)]
    if open_ones:
        raise ConfigError(
            f"{' and '.join(open_ones)}: everybody who reaches this address could read and change all views",
            hint="Set permit.hmac_secret, permit.public_keys, permit.jwks_url or permit.keys, "
            'or listen on "127.0.0.1"',
        )


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches what listens on an address; a name may mean any but localhost."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback
