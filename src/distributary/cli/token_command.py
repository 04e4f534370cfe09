"""``distributary token``: make, explain and revoke tokens; make API keys."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from distributary.cli.command_line import add_common
from distributary.cli.output import columns, config_of, print_json

if TYPE_CHECKING:
    from distributary.auth import Grant
    from distributary.config import Config
    from distributary.errors import AccessError

NAME = "token"
HELP = "make, explain and revoke tokens, and make API keys"
EXAMPLES = (
    "distributary token make --user ann --views odds,bets --for 1h",
    "distributary token make --user ann --views odds --rows \"country = 'DE'\"",
    "distributary token show - < FILE            whether it counts, and why not; others see an argument",
    "distributary token key reports --views odds make an API key and the lines for the configuration",
    "distributary token revoke ann               what ann was given before now no longer counts",
    "distributary token revoke --id 4f1c         this one token no longer counts",
)


LISTS = {
    "publish": "feeds that it may publish to, over WebSocket",
    "produce": "topics that it may write to, over HTTP",
    "consume": "topics that it may read, over HTTP",
    "groups": "consumer groups that it may join (default: those named after the user)",
    "subjects": "subjects whose schemas it may read (default: those of its topics)",
    "register": "subjects that it may register schemas under",
    "define": "views that it may define, without functions",
}
"""Options that are lists of names or patterns, by the claim that each becomes."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = actions.add_parser(
        "make",
        help="sign a token for trying",
        description="Sign a token with auth.hmac_secret (HS256). Give real ones out where people log in.",
    )
    make.add_argument("--user", required=True, help="whom it is for (sub)")
    make.add_argument(
        "--for", dest="seconds", default="1h", metavar="TIME", help="how long it counts (default: 1h)"
    )
    key = actions.add_parser(
        "key",
        help="make an API key for a service",
        description="Make an API key. It is shown once; the configuration keeps its hash only.",
    )
    key.add_argument("name", help="what the configuration calls it")
    key.add_argument("--expires", metavar="DATE", help="when it ends: 2027-01-31 (default: never)")
    for one in (make, key):
        one.add_argument("--views", metavar="A,B", help="views that it allows: names, or patterns with *")
        one.add_argument("--rows", metavar="FILTER", help="only these rows of each view")
        one.add_argument("--columns", metavar="A,B", help="only these fields of each row")
        for name, what in LISTS.items():
            one.add_argument(f"--{name}", metavar="A,B", help=what)
        one.add_argument(
            "--operator",
            choices=("read", "operate", "admin"),
            help="read: status and metrics; operate: revoke, delete schemas; admin: everything",
        )
    show = actions.add_parser(
        "show",
        help="explain a token: whether it counts, and what it allows",
        description="Explain a token. Other users of this machine can see the arguments of a command while "
        "it runs, and the shell keeps them: give a token that counts on standard input, with - in its place.",
    )
    show.add_argument("token", help="- to read the token from standard input, or the token itself")
    revoke = actions.add_parser("revoke", help="end what a user was given before now, or one token")
    revoke.add_argument("user", nargs="?", help="the user (sub); key:NAME is an API key's")
    revoke.add_argument("--id", metavar="JTI", help="one token, by its id (jti)")
    for one in (make, key, show, revoke):
        add_common(one)


def run(args: argparse.Namespace) -> int:
    """Do the action; 1 when a shown token does not count."""
    match args.action:
        case "make":
            return _make(args)
        case "key":
            return _key(args)
        case "show":
            return _show(args)
        case _:
            return _revoke(args)


def _make(args: argparse.Namespace) -> int:
    from distributary.auth.token_issuer import make_token
    from distributary.config import parse_duration
    from distributary.errors import TokenRefused, UsageError

    auth = config_of(args, required=False).auth
    try:
        seconds = parse_duration(args.seconds)
    except ValueError as error:
        raise UsageError(f"--for {args.seconds}: {error}") from None
    if seconds < 1:
        raise UsageError(f"--for {args.seconds}: too short", hint="Give at least 1 s")
    try:
        token, claims = make_token(auth, args.user, allowed(args), seconds)
    except TokenRefused as error:
        raise UsageError(f"such a token would be refused: {error.message}", hint=error.hint) from None
    if args.json:
        print_json({"token": token, "claims": claims})
    else:
        print(token)
    return 0


def _key(args: argparse.Namespace) -> int:
    from distributary.auth.api_keys import ApiKeys, make_key

    key, hash = make_key()
    settings = {"hash": hash, "issued": datetime.now(UTC).isoformat(timespec="seconds")}
    settings |= {"expires": args.expires} if args.expires else {}
    settings |= allowed(args)
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


def _show(args: argparse.Namespace) -> int:
    from distributary.errors import AccessError

    config = config_of(args, required=False)
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
                "grant": described(grant) if grant else None,
            }
        )
    else:
        print(explained(header, claims, grant, error))
    return 0 if error is None else 1


async def _grant(config: Config, token: str) -> Grant:
    """Check a token as a server would, but for revocations, which are in the store."""
    from distributary.auth import Authenticator
    from distributary.errors import UsageError

    async def nobody(users: object) -> dict[str, int]:
        return {}

    gate = Authenticator(config, nobody)
    if not gate.on:
        raise UsageError(
            "there is nothing to check a token with: [auth] is empty",
            hint="Set auth.hmac_secret, auth.public_keys or auth.jwks_url",
        )
    return await gate.by_token(token)


def _revoke(args: argparse.Namespace) -> int:
    from urllib.parse import quote

    from distributary.control.api_client import connect
    from distributary.errors import UsageError

    if (args.user is None) == (args.id is None):
        raise UsageError("name a user, or a token by --id", hint="Give one of them")
    path = f"/v1/tokens/{quote(args.id, safe='')}" if args.id else f"/v1/users/{quote(args.user, safe='')}"
    reply = connect(args.config).call("POST", f"{path}/revoke")
    if args.json:
        print_json(reply)
    elif args.id:
        print(f"the token {args.id} no longer counts")
    else:
        print(f"{args.user}: tokens issued before {_time(reply['revoked_before'] / 1000)} no longer count")
    return 0


def allowed(args: argparse.Namespace) -> dict[str, Any]:
    """Read what a token or key is to allow, as claims."""
    claims: dict[str, Any] = {}
    for name in ("views", "columns", *LISTS):
        text = getattr(args, name)
        if text is not None:
            claims[name] = [word.strip() for word in text.split(",") if word.strip()]
    if args.rows is not None:
        claims["rows"] = args.rows
    return claims | ({"operator": args.operator} if args.operator else {})


def described(grant: Grant) -> dict[str, Any]:
    """Describe a grant for programs, in the words of the claims."""
    columns = {pattern: fields.tree for pattern, fields in grant.columns}
    return asdict(grant) | {"operator": grant.operator.name.lower(), "columns": columns}


def unverified(token: str) -> tuple[Any, Any]:
    """Read header and claims of a token that nobody vouched for; None for what cannot be read."""
    import jwt

    header = claims = None
    # A header that is good tells more than nothing, also where the claims cannot be read.
    with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError, RecursionError):
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    return header, claims


def explained(header: Any, claims: Any, grant: Grant | None, error: AccessError | None) -> str:
    """Say in lines whether a token counts, what it says, and what it allows."""
    rows: list[tuple[str, str]] = []
    if error is None:
        rows.append(("counts", "yes (whether it was revoked is not looked up)"))
    else:
        reason = getattr(error, "reason", "") or error.code
        rows.append(("counts", f"no, {reason}: {error}"))
    for part, said in (("header", header), ("claims", claims)):
        if isinstance(said, Mapping):
            rows += [(f"{part}.{name}", _shown(name, value)) for name, value in said.items()]
        else:
            rows.append((part, "cannot be read"))
    if grant is not None:
        rows.append(("allows views", ", ".join(grant.views) or "none"))
        rows += [(f"rows of {pattern}", where) for pattern, where in grant.rows]
        rows += [(f"columns of {pattern}", fields.text) for pattern, fields in grant.columns]
        rows += [(f"allows {name}", ", ".join(found)) for name in LISTS if (found := getattr(grant, name))]
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
        return "no time"


def _toml(value: Any) -> str:
    """Write a claim as TOML: texts, lists of texts and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
