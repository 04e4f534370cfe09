"""The section ``[schemas]``."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import validators
from distributary.config.setting_field import Section, setting


@dataclass(frozen=True, slots=True, repr=False)
class Schemas(Section):
    """Where the schemas of feeds in Avro are found: a registry of yours, or the stack's own gateway."""

    url: str = setting(
        "",
        "Address of the schema registry, with user:password where it asks for them. "
        "Empty: the gateway of the stack.",
        example='"https://user:password@registry.example.com"',
        secret=True,
        check=validators.registry_url,
    )
    api_key: str = setting(
        "",
        "API key for a gateway with permission (any user will do); sent as X-API-Key.",
        example='"dk_the-key-of-a-service"',
        hidden=True,
        check=validators.header,
    )
