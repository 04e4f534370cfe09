"""Secrets of the configuration file that other users of the machine can read."""

from __future__ import annotations

from distributary.config.loader import Config
from distributary.config.private_files import readable_by_others


def exposed_secrets(config: Config) -> tuple[str, ...]:
    """The settings that are secrets and written in a file that others can read, by key."""
    if config.path is None or not readable_by_others(config.path):
        return ()
    return tuple(row.key for row in config.effective() if row.secret and row.origin.kind == "file")


def exposed_warning(config: Config) -> str:
    """What to say of them; "" where there are none."""
    keys = exposed_secrets(config)
    if not keys:
        return ""
    return (
        f"{config.path} holds secrets ({', '.join(keys)}) that other users can read: "
        f"chmod 600 {config.path}, or give them by environment"
    )
