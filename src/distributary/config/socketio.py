"""The section ``[socketio]``."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import checks
from distributary.config.setting import Section, setting


@dataclass(frozen=True, slots=True, repr=False)
class Socketio(Section):
    """The socket.io gateway (needs the extra ``socketio``). Its limits are those of ``publisher``."""

    host: str = setting(
        "127.0.0.1",
        'The address to listen on; "0.0.0.0" listens on all of the machine\'s.',
        example='"0.0.0.0"',
        check=checks.not_blank,
    )
    port: int = setting(0, "Port of the gateway. 0: `up` starts none.", low=0, high=65535, example="8003")
    publishers: tuple[str, ...] = setting(
        (),
        "WebSocket addresses of the publishers that it uses. Empty: those of the stack.",
        example='["wss://stream.example.com"]',
        check=checks.public_url,
    )
