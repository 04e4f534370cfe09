"""Which grants the gateway's routes require.

Writing and reading records requires ``produce`` and ``consume`` that name the topic; Kafka's own topics and
Distributary's require an admin. Reading schemas requires a grant for their topic, or ``subjects`` that name
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from aiohttp import web

from distributary.auth import Grant, Operator
from distributary.config import Config
from distributary.errors import Forbidden
from distributary.gateway.registry.schemas_topic_records import local_subject
from distributary.httpd.authorization import AUTHORIZATION, Check, Requirement, check_requirement, grant_of

CONFIG: web.AppKey[Config] = web.AppKey("config", Config)


def requirement_check(config: Config) -> Check:
    """Create the check of the gateway's routes."""

    def check(grant: Grant, requirement: Requirement, path: Mapping[str, str]) -> None:
        if requirement is Requirement.GROUP:
            grant.require_group(path["group"])
        elif requirement is Requirement.REGISTER:
            grant.require_register(local_subject(path["subject"]))
        elif requirement is Requirement.SUBJECT:
            check_subject(grant, path["subject"])
        elif requirement in (Requirement.TOPIC, Requirement.PRODUCE, Requirement.CONSUME):
            check_topic(grant, requirement, path["topic"], config)
        else:
            check_requirement(grant, requirement, path)

    return check


def check_subject(grant: Grant, subject: str) -> None:
    """Raise Forbidden unless a grant may read the schemas of a subject."""
    if not grant.may_read_subject(local_subject(subject)):
        raise Forbidden(
            f'the user "{grant.user}" may not read schemas of "{subject[:80]}"',
            hint="request a token whose subjects name it",
        )


def check_topic(grant: Grant, requirement: Requirement, topic: str, config: Config) -> None:
    """Raise Forbidden unless a grant has what is needed of a topic."""
    if requirement is Requirement.TOPIC:
        if not grant.may_describe(topic):
            raise Forbidden(
                f'the user "{grant.user}" may neither produce to nor consume the topic "{topic[:80]}"',
                hint="request a token that names it",
            )
        return
    if is_internal(topic, config):
        grant.require_operator(Operator.ADMIN)
    if requirement is Requirement.PRODUCE:
        grant.require_produce(topic)
    else:
        grant.require_consume(topic)


def is_internal(topic: str, config: Config) -> bool:
    """Whether a topic is Kafka's own, or Distributary's, which have queries and rows of all users."""
    ours = (config.kafka.commands_topic, config.gateway.schemas_topic)
    return topic in ours or topic.startswith(("__", "distributary."))


def check_consumes(request: web.Request, topics: Iterable[str]) -> None:
    """Raise Forbidden unless the caller may read the records of all of these topics."""
    for topic in topics:
        check_topic(grant_of(request), Requirement.CONSUME, topic, request.app[CONFIG])


def user_of(request: web.Request) -> str:
    """Return the user of a request; "" where authorization is off."""
    return grant_of(request).user


async def still_permitted(request: web.Request) -> None:
    """Raise TokenRefused if the credentials of a long request are not valid any more."""
    for _, error in await request.app[AUTHORIZATION].authenticator.find_ended([grant_of(request)]):
        raise error


def prefix_of(config: Config) -> str:
    """Return the path under which clients find the gateway: that of ``gateway.advertised_url``."""
    rest = config.gateway.advertised_url.partition("://")[2]
    return ("/" + rest.partition("/")[2].strip("/")).rstrip("/")


def canonical_path(config: Config) -> Callable[[str], str]:
    """Return a function that removes the prefix and the last slash from a path."""
    prefix = prefix_of(config)
    return lambda path: path.removeprefix(prefix).removeprefix(prefix).rstrip("/") or "/"
