"""What a caller shows of itself, as the environment has it."""

from __future__ import annotations

from collections.abc import Mapping

from distributary.errors import UsageError

TOKEN = "DISTRIBUTARY_TOKEN"
API_KEY = "DISTRIBUTARY_API_KEY"


def of_environment(env: Mapping[str, str]) -> tuple[str, str]:
    """Give the token and the API key of the environment, '' for each that is not there; the token goes first.

    Raises UsageError for what is no word, without repeating it.
    """
    found = {TOKEN: "", API_KEY: ""}
    for name in found:
        value = env.get(name, "").strip()
        if not value.isascii() or not (value or "x").isprintable() or " " in value:
            raise UsageError(f"{name} is not what it says", hint="Give one word, without line ends")
        if value:
            found[name] = value
            break
    return found[TOKEN], found[API_KEY]
