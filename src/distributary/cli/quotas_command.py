"""``distributary quotas``: how much users and client ids may write, read and request."""

from __future__ import annotations

import click

from distributary.cli.command_line import Args, combine, group, print_result, print_rows
from distributary.cli.kafka_options import cluster_of, cluster_options, settings_of
from distributary.errors import UsageError
from distributary.kafka.quota_admin import KEYS

quotas_group = group(
    "quotas",
    examples=(
        "distributary quotas list",
        "distributary quotas set --client-id web --producer-byte-rate 1048576 --consumer-byte-rate 2097152",
        "distributary quotas set --user ann --request-percentage 50",
        "distributary quotas set --user-default --consumer-byte-rate 1000000   users without their own",
        "distributary quotas delete --client-id web consumer_byte_rate         without names: all of them",
    ),
)


_KINDS = {"user": "user", "client-id": "client id", "ip": "address"}

_entity_options = combine(
    *(
        option
        for kind, text in _KINDS.items()
        for option in (
            click.option(f"--{kind}", metavar="NAME", help=f"of this {text}"),
            click.option(f"--{kind}-default", is_flag=True, help=f"of each {text} without its own"),
        )
    )
)

_value_options = combine(
    *(click.option(f"--{key.replace('_', '-')}", key, metavar="N", help=text) for key, text in KEYS.items())
)


@quotas_group.command("list")
@_entity_options
@cluster_options
def list_quotas(args: Args) -> int:
    """List the quotas."""
    from distributary.kafka import quota_admin

    found = quota_admin.describe(cluster_of(args), _entity(args) or None)
    rows = [
        (quota_admin.title(one.entity), key, f"{value:,g}" if value < 1e6 else f"{value:,.0f}")
        for one in found
        for key, value in sorted(one.values.items())
    ]
    body = [{"of": dict(one.entity), "values": dict(one.values)} for one in found]
    print_rows(args, body, rows, ("OF", "QUOTA", "VALUE"))
    return 0


@quotas_group.command("set")
@_entity_options
@_value_options
@click.option("--set", multiple=True, hidden=True)
@cluster_options
def set_quotas(args: Args) -> int:
    """Set quotas; others are unchanged."""
    from distributary.kafka import quota_admin

    entity = _required_entity(args)
    given = {key: getattr(args, key) for key in KEYS if getattr(args, key) is not None}
    values = quota_admin.read_values({**settings_of(args.set), **given})
    if not values:
        raise UsageError("which quota?", hint="As in: --producer-byte-rate 1048576")
    quota_admin.alter(cluster_of(args), entity, values)
    return _done(args, entity, f"set to {', '.join(f'{key}={value:g}' for key, value in values.items())}")


@quotas_group.command("delete")
@click.argument("keys", nargs=-1, metavar="[QUOTA]…", help=f"which: {', '.join(KEYS)}")
@_entity_options
@cluster_options
def delete_quotas(args: Args) -> int:
    """Delete some quotas, or all."""
    from distributary.kafka import quota_admin

    entity = _required_entity(args)
    for key in args.keys:
        quota_admin.check_key(key)
    cluster = cluster_of(args)
    existing = {key for one in quota_admin.describe(cluster, entity) for key in one.values}
    if not existing or not existing.issuperset(args.keys):
        raise quota_admin.missing(entity)
    deleted = list(args.keys) or sorted(existing)
    quota_admin.alter(cluster, entity, {}, deleted)
    return _done(args, entity, f"deleted {', '.join(deleted)}")


def _done(args: Args, entity: dict[str, str | None], what: str) -> int:
    from distributary.kafka import quota_admin

    print_result(args, f"quota of {quota_admin.title(entity)}: {what}", {"of": entity, "done": what})
    return 0


def _entity(args: Args) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for kind, option in (("user", "user"), ("client", "client_id"), ("ip", "ip")):
        name, default = getattr(args, option), getattr(args, f"{option}_default")
        if name is not None and default:
            raise UsageError(f"--{option.replace('_', '-')}: give a name or the default, not both")
        if name is not None or default:
            found[kind] = name
    if "ip" in found and len(found) > 1:
        raise UsageError("--ip cannot be combined with --user or --client-id")
    return found


def _required_entity(args: Args) -> dict[str, str | None]:
    found = _entity(args)
    if not found:
        raise UsageError(
            "whose quotas?", hint="Give --user, --client-id or both, or --ip; or one of the defaults"
        )
    return found
