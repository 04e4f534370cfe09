"""Endpoints of a stack, as users write them, and the credentials that the environment has for them."""

from __future__ import annotations

from collections.abc import Mapping

from distributary.errors import UsageError

CONTROL_URL = "DISTRIBUTARY_CONTROL_URL"
TOKEN = "DISTRIBUTARY_TOKEN"
API_KEY = "DISTRIBUTARY_API_KEY"

WEBSOCKET_PATH = "/connection/websocket"


def websocket_url(url: str) -> str:
    """Complete ``host:port``, ``http(s)://…`` or ``ws://host`` to the URL of a publisher's WebSocket."""
    if "://" not in url:
        url = f"ws://{url}"
    scheme, _, rest = url.partition("://")
    scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}/{path}" if slash and path else f"{scheme}://{host}{WEBSOCKET_PATH}"


def environment_credentials(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and the API key of the environment, "" if not set; the token has priority.

    Raises UsageError for a value that is not one printable ASCII word, without repeating it.
    """
    found = {TOKEN: "", API_KEY: ""}
    for name in found:
        value = env.get(name, "").strip()
        if not value.isascii() or not (value or "x").isprintable() or " " in value:
            raise UsageError(
                f"{name} contains whitespace, line breaks or non-ASCII characters",
                hint="Set it to the token or key alone",
            )
        if value:
            found[name] = value
            break
    return found[TOKEN], found[API_KEY]
