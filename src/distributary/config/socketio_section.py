"""The section ``[socketio]``."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import validators
from distributary.config.server_sections import Listening, listen_port
from distributary.config.setting_field import setting


@dataclass(frozen=True, slots=True, repr=False)
class Socketio(Listening):
    """The socket.io gateway (needs the extra ``socketio``). Its limits are those of ``publisher``."""

    port: int = listen_port(0, "Port of the gateway. 0: `up` starts none.", low=0, example="8003")
    publishers: tuple[str, ...] = setting(
        (),
        "WebSocket addresses of the publishers that it uses. Empty: those of the stack.",
        example='["wss://stream.example.com"]',
        secret=True,
        check=validators.public_url,
    )
