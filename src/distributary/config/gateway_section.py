"""The section ``[gateway]``: Kafka over HTTP and the schema registry."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import validators
from distributary.config.server_sections import Listening, listen_port
from distributary.config.setting_field import setting


@dataclass(frozen=True, slots=True, repr=False)
class Gateway(Listening):
    """Kafka over HTTP (REST proxy and topic streams) and the schema registry."""

    port: int = listen_port(8082, "Port of the gateway.")
    advertised_url: str = setting(
        "",
        "Address that clients are told in base_uri, with its path, when a proxy stands before the gateway. "
        "Empty: what X-Forwarded-* says, else host and port.",
        example='"https://kafka.example.com/rest"',
        secret=True,
        check=validators.web_url,
    )
    schemas_topic: str = setting(
        "distributary.schemas",
        "Compacted topic that holds the registry's schemas.",
        example='"prod.distributary.schemas"',
        check=validators.topic,
    )
    max_body: int = setting(
        10_485_760,
        "Largest body of a request, and most of what one read gives.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 30,
        example='"1 MiB"',
    )
    max_instances: int = setting(
        256,
        "Consumer instances and streams that there may be at a time; each is a Kafka client.",
        low=1,
        high=100_000,
        example="1000",
    )
    instance_timeout: float = setting(
        30.0,
        "After how long without a request a consumer instance is closed, so that others of its group take "
        "over its partitions. One whose client breaks off a request, as a killed one does, is closed after "
        "3 s.",
        unit="s",
        low=0.1,
        example='"5 minutes"',
    )
    schema_timeout: float = setting(
        1.0,
        "Longest CPU time for reading or comparing a schema, or for checking up to 100 records by one. "
        "What takes longer is refused.",
        unit="s",
        low=0.01,
        high=60,
        example='"500 ms"',
    )
    poll_timeout: float = setting(
        1.0,
        "How long a read waits for records when the request does not say.",
        unit="s",
        low=0,
        high=60,
        example='"5 s"',
    )
