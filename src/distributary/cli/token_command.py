"""``distributary token``: create, inspect and revoke tokens; create API keys."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, columns, combine, group, load_config, print_json

if TYPE_CHECKING:
    from distributary.auth import Grant
    from distributary.config import Config
    from distributary.errors import AccessError

CLAIM_LISTS = {
    "publish": "feeds that it may publish to, over WebSocket",
    "produce": "topics that it may write to, over HTTP",
    "consume": "topics that it may read, over HTTP",
    "groups": "consumer groups that it may join (default: those named after the user)",
    "subjects": "subjects whose schemas it may read (default: those of its topics)",
    "register": "subjects that it may register schemas under",
    "define": "views that it may define, without functions",
}
"""Options that are lists of names or patterns, by the claim that each becomes."""

token_group = group(
    "token",
    examples=(
        "distributary token create --user ann --views odds,bets --for 1h",
        "distributary token create --user ann --views odds --rows \"country = 'DE'\"",
        "distributary token show - < FILE            whether it is valid; others can see an argument",
        "distributary token key reports --views odds create an API key and the lines for the configuration",
        "distributary token revoke ann               revoke all tokens that ann has now",
        "distributary token revoke --id 4f1c         revoke one token",
    ),
)


_grant_options = combine(
    click.option("--views", metavar="A,B", help="views that it allows: names, or patterns with *"),
    click.option("--rows", metavar="FILTER", help="only these rows of each view"),
    click.option("--columns", metavar="A,B", help="only these fields of each row"),
    *(click.option(f"--{name}", metavar="A,B", help=text) for name, text in CLAIM_LISTS.items()),
    click.option(
        "--operator",
        type=click.Choice(("read", "operate", "admin")),
        help="read: status and metrics; operate: revoke, delete schemas; admin: everything",
    ),
)
"""The options that say what a token or key allows."""


@token_group.command("create")
@click.option("--user", required=True, metavar="USER", help="the user (sub)")
@click.option("--for", "seconds", default="1h", metavar="TIME", help="how long it is valid (default: 1h)")
@_grant_options
def create_token(args: Args) -> int:
    """Create a token for testing, signed with auth.hmac_secret (HS256).

    In production, issue tokens where users log in.
    """
    from distributary.auth.token_issuer import sign_token
    from distributary.config import parse_duration
    from distributary.errors import TokenRefused, UsageError

    auth = load_config(args, required=False).auth
    try:
        seconds = parse_duration(args.seconds)
    except ValueError as error:
        raise UsageError(f"--for {args.seconds}: {error}") from None
    if seconds < 1:
        raise UsageError(f"--for {args.seconds}: too short", hint="Give at least 1 s")
    try:
        token, claims = sign_token(auth, args.user, claims_of(args), seconds)
    except TokenRefused as error:
        raise UsageError(f"a server would refuse this token: {error.message}", hint=error.hint) from None
    if args.json:
        print_json({"token": token, "claims": claims})
    else:
        print(token)
    return 0


@token_group.command("key")
@click.argument("name", metavar="NAME", help="its name in the configuration")
@click.option("--expires", metavar="DATE", help="when it expires: 2027-01-31 (default: never)")
@_grant_options
def create_key(args: Args) -> int:
    """Create an API key for a service.

    It is shown once; the configuration has only its hash.
    """
    from distributary.auth.api_keys import ApiKeys, create_key

    key, hash = create_key()
    settings = {"hash": hash, "issued": datetime.now(UTC).isoformat(timespec="seconds")}
    settings |= {"expires": args.expires} if args.expires else {}
    settings |= claims_of(args)
    ApiKeys({args.name: json.dumps(settings)})  # the configuration would refuse it too
    lines = "\n".join(
        [f"[auth.keys.{args.name}]", *(f"{name} = {_toml(settings[name])}" for name in settings)]
    )
    if args.json:
        print_json({"name": args.name, "key": key, "settings": settings})
        return 0
    print(f"{lines}\n")
    print(f"The key, which is not shown again:\n\n{key}")
    return 0


@token_group.command("show")
@click.argument("token", metavar="TOKEN", help="the token, or - to read it from standard input")
def show_token(args: Args) -> int:
    """Show whether a token is valid, and what it allows.

    Other users of this machine can see the arguments of a command while it runs, and the shell stores them
    in its history: pass a token that is valid on standard input, with - in its place. The exit status is 1 if
    the token is not valid.
    """
    from distributary.errors import AccessError

    config = load_config(args, required=False)
    token = (sys.stdin.read() if args.token == "-" else args.token).strip()
    header, claims = unverified(token)
    grant: Grant | None = None
    error: AccessError | None = None
    try:
        grant = asyncio.run(_grant(config, token))
    except AccessError as refused:
        error = refused
    if args.json:
        print_json(
            {
                "verified": error is None,
                "error": None
                if error is None
                else {"code": error.code, "reason": getattr(error, "reason", ""), "message": error.message},
                "header": header,
                "claims": claims,
                "grant": grant_json(grant) if grant else None,
            }
        )
    else:
        print(token_text(header, claims, grant, error))
    return 0 if error is None else 1


async def _grant(config: Config, token: str) -> Grant:
    """Check a token as a server would, except for revocations, which are in the store."""
    from distributary.auth import Authenticator
    from distributary.errors import UsageError

    async def no_revocations(users: object) -> dict[str, int]:
        return {}

    authenticator = Authenticator(config, no_revocations)
    if not authenticator.on:
        raise UsageError(
            "there is nothing to check a token with: [auth] is empty",
            hint="Set auth.hmac_secret, auth.public_keys or auth.jwks_url",
        )
    return await authenticator.by_token(token)


@token_group.command("revoke")
@click.argument("user", required=False, metavar="[USER]", help="the user (sub); key:NAME is an API key's")
@click.option("--id", metavar="JTI", help="one token, by its id (jti)")
def revoke_tokens(args: Args) -> int:
    """Revoke all tokens that a user has now, or one token."""
    from urllib.parse import quote

    from distributary.control.api_client import connect
    from distributary.errors import UsageError

    if (args.user is None) == (args.id is None):
        raise UsageError("name a user, or a token by --id", hint="Give one of them")
    path = f"/v1/tokens/{quote(args.id, safe='')}" if args.id else f"/v1/users/{quote(args.user, safe='')}"
    response = connect(args.config).call("POST", f"{path}/revoke")
    if args.json:
        print_json(response)
    elif args.id:
        print(f"token {args.id}: revoked")
    else:
        print(f"{args.user}: tokens issued before {_time(response['revoked_before'] / 1000)} are revoked")
    return 0


def claims_of(args: Args) -> dict[str, Any]:
    """The claims of a token or key that the options describe."""
    claims: dict[str, Any] = {}
    for name in ("views", "columns", *CLAIM_LISTS):
        text = getattr(args, name)
        if text is not None:
            claims[name] = [word.strip() for word in text.split(",") if word.strip()]
    if args.rows is not None:
        claims["rows"] = args.rows
    return claims | ({"operator": args.operator} if args.operator else {})


def grant_json(grant: Grant) -> dict[str, Any]:
    """Describe a grant for programs, in the words of the claims."""
    columns = {pattern: fields.tree for pattern, fields in grant.columns}
    return asdict(grant) | {"operator": grant.operator.name.lower(), "columns": columns}


def unverified(token: str) -> tuple[Any, Any]:
    """Read header and claims of a token without checking it; None for what cannot be read."""
    import jwt

    header = claims = None
    # Where only the claims cannot be read, the header is still shown.
    with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError, RecursionError):
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    return header, claims


def token_text(header: Any, claims: Any, grant: Grant | None, error: AccessError | None) -> str:
    """Lay out whether a token is valid, what it contains, and what it allows."""
    rows: list[tuple[str, str]] = []
    if error is None:
        rows.append(("valid", "yes (revocation is not checked)"))
    else:
        reason = getattr(error, "reason", "") or error.code
        rows.append(("valid", f"no, {reason}: {error}"))
    for part, values in (("header", header), ("claims", claims)):
        if isinstance(values, Mapping):
            rows += [(f"{part}.{name}", _shown(name, value)) for name, value in values.items()]
        else:
            rows.append((part, "cannot be read"))
    if grant is not None:
        rows.append(("allows views", ", ".join(grant.views) or "none"))
        rows += [(f"rows of {pattern}", where) for pattern, where in grant.rows]
        rows += [(f"columns of {pattern}", fields.text) for pattern, fields in grant.columns]
        rows += [
            (f"allows {name}", ", ".join(found)) for name in CLAIM_LISTS if (found := getattr(grant, name))
        ]
        rows.append(("operator", grant.operator.name.lower()))
    return columns(rows, ("FACT", "VALUE"))


def _shown(name: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if name in ("exp", "nbf", "iat") and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{text} ({_time(value)})"
    return text


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return "invalid time"


def _toml(value: Any) -> str:
    """Format a claim as TOML: strings, lists of strings and booleans are as in JSON."""
    return json.dumps(value, ensure_ascii=False)
