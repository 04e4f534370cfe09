"""SCRAM users: names with a password, which Kafka keeps salted and hashed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from distributary.kafka import kafka_errors
from distributary.kafka.admin import Cluster

MECHANISMS = {
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
}
ITERATIONS = 8192
"""How often a password is hashed. Kafka takes 4096 to 16384."""
BOUNDS = range(4096, 16_385)


class User(NamedTuple):
    """One credential: a user has at most one for each mechanism."""

    name: str
    mechanism: str
    iterations: int


def listing(cluster: Cluster, names: Iterable[str] = ()) -> list[User]:
    """The users of these names, or all, sorted; names without a credential are left out."""
    wanted = list(dict.fromkeys(names))
    asked: Any = cluster.admin.describe_user_scram_credentials(
        wanted or None, request_timeout=kafka_errors.LIMIT
    )
    if not wanted:
        found = cluster.ask(asked, "the users").values()
    else:
        found = [one for name in wanted if (one := _described(cluster, asked[name], name)) is not None]
    kinds = {kind: name for name, kind in MECHANISMS.items()}
    return sorted(
        User(one.user, kinds.get(info.mechanism, "unknown"), info.iterations)
        for one in found
        for info in one.scram_credential_infos
    )


def put(
    cluster: Cluster,
    passwords: Mapping[str, str],
    mechanism: str = "SCRAM-SHA-512",
    iterations: int = ITERATIONS,
) -> None:
    """Give each user its password, in place of one that it had."""
    info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
    changes: list[Any] = [
        UserScramCredentialUpsertion(name, info, text.encode()) for name, text in passwords.items()
    ]
    asked = cluster.admin.alter_user_scram_credentials(changes, request_timeout=kafka_errors.LIMIT)
    cluster.ask_each(asked, "user")


def delete(cluster: Cluster, users: Iterable[User]) -> None:
    """Take credentials away. Connections that are open stay so until they authenticate again."""
    for one in users:
        change = UserScramCredentialDeletion(one.name, MECHANISMS[one.mechanism])
        asked = cluster.admin.alter_user_scram_credentials([change], request_timeout=kafka_errors.LIMIT)
        cluster.ask_each(asked, "user")


def _described(cluster: Cluster, future: Any, name: str) -> Any:
    try:
        return future.result(kafka_errors.LIMIT + 1)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.RESOURCE_NOT_FOUND:
            return None
        raise kafka_errors.named(error.args[0], f"user {name}", cluster.servers) from None
