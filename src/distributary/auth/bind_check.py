"""An open stack listens on this machine only, and to no page of any site."""

from __future__ import annotations

from distributary.auth.client_address import is_loopback
from distributary.config import Config, Control, Gateway, Publisher
from distributary.config.socketio_section import Socketio
from distributary.errors import ConfigError


def check_exposure(config: Config) -> None:
    """Raise ConfigError when a stack without permission would be open to others.

    These are who reaches an address of the network, and the pages of every site that somebody here looks at.
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
            f"{' and '.join(exposed)}: everybody who reaches this address could read and change all views",
            hint="Set auth.hmac_secret, auth.public_keys, auth.jwks_url or auth.keys, "
            'or listen on "127.0.0.1"',
        )
    public = [f'{name}.origins has "*"' for name, it in listening.items() if "*" in it.origins]
    if public:
        raise ConfigError(
            f"{' and '.join(public)}: the pages of every site could read all views",
            hint="Name the origins of your pages, or set auth.hmac_secret, auth.public_keys, "
            "auth.jwks_url or auth.keys",
        )
