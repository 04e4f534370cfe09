"""What each part of a stack does with Kafka, as ACLs: a secure embedded broker allows that and no more.

Views are defined while the stack runs, over any topic, so rights on feeds are rights on all topics; what a
part has no business with is denied by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distributary.kafka import acl_admin, user_admin
from distributary.kafka.acl_admin import Acl, Wanted
from distributary.kafka.admin import Cluster

PARTS = ("control", "gateway", "reducers", "publisher")
OWN = "distributary."
"""How the names of our own groups begin, and those of the topics that the reducers make for themselves."""
REKEYED = "distributary.rekeyed."
SPARK = "spark-kafka-source-"
"""How the groups begin that Spark reads with."""


def user_of(part: str) -> str:
    """The user that a part logs in as."""
    return f"distributary-{part}"


def rights(commands: str, schemas: str) -> list[Acl]:
    """The ACLs of all parts; ``commands`` and ``schemas`` are the topics of commands and schemas."""
    control, gateway, reducers, publisher = (f"User:{user_of(part)}" for part in PARTS)
    every, write = "*", ("write", "create")
    return [
        # Looks where topics end and when their oldest unread record was written; tells of subscriptions.
        *_topic(control, every, "read"),
        *_topic(control, commands, "write"),
        *_groups(control, "distributary.lookup"),
        # Serves Kafka over HTTP (who may use which topic it decides itself) and keeps the schemas.
        *_topic(gateway, every, "read", "describe-configs", *write),
        *_deny(gateway, commands, REKEYED),
        Acl("group", every, gateway, "read"),
        *(Acl("transactional-id", f"{schemas}.writer", gateway, one) for one in ("write", "describe")),
        # Read feeds, write dead letters, make and remove the topics that they re-key with, commit for tools.
        *_topic(reducers, every, "read", "describe-configs", *write),
        *_topic(reducers, REKEYED, "delete", prefixed=True),
        *_deny(reducers, commands),
        *_deny(reducers, schemas),
        *(Acl("group", name, reducers, "read", prefixed=True) for name in (OWN, SPARK)),
        *_groups(reducers, "distributary-commands", "distributary-events", "distributary-schemas"),
        # Writes what clients publish, and its dead letters; reads again what a subscriber missed.
        *_topic(publisher, every, "read", "describe-configs", *write),
        *_deny(publisher, schemas, REKEYED),
        *_groups(publisher, "distributary.replay"),
    ]


def provide(cluster: Cluster, wanted: Iterable[Acl], passwords: Mapping[str, str]) -> None:
    """Have exactly these ACLs for their principals, then give users their passwords.

    In this order, so that a user who can log in for the first time finds its rights there.
    """
    wanted = set(wanted)
    there = {one for who in {one.principal for one in wanted} for one in _of(cluster, who)}
    if missing := wanted - there:
        acl_admin.add(cluster, sorted(missing))
    for old in sorted(there - wanted):
        acl_admin.remove(cluster, Wanted(*old))
    user_admin.put(cluster, passwords)


def _of(cluster: Cluster, principal: str) -> list[Acl]:
    return acl_admin.listing(cluster, Wanted(principal=principal))


def _topic(principal: str, name: str, *operations: str, prefixed: bool = False) -> list[Acl]:
    return [Acl("topic", name, principal, one, prefixed=prefixed) for one in operations]


def _groups(principal: str, *names: str) -> list[Acl]:
    """For readers that join no group: the library asks who coordinates the one that they name, anyway."""
    return [Acl("group", name, principal, "describe") for name in names]


def _deny(principal: str, topic: str, prefix: str = "") -> list[Acl]:
    """Writing to a topic that is another part's, and to all that begin so."""
    found = [Acl("topic", topic, principal, "write", allow=False)]
    if prefix:
        found.append(Acl("topic", prefix, principal, "write", allow=False, prefixed=True))
    return found
