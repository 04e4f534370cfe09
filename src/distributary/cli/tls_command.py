"""``distributary tls``: certificates for development."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.cli.command_line import add_common
from distributary.cli.output import config_of, print_json

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.httpd.dev_certificates import Made

NAME = "tls"
HELP = "make a CA and certificates for development"
EXAMPLES = (
    "distributary tls dev                        for this machine, in tls/ of the data folder",
    "distributary tls dev --name box.internal    for a further name or address",
    "distributary tls dev --client ann           with a client certificate, for tls_client_ca",
)

_SERVERS = ("publisher", "control", "gateway", "socketio")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    dev = actions.add_parser(
        "dev",
        help="make a development CA and what it signs",
        description="Make a CA of your own and a server certificate for this machine. What is there and good "
        "is kept;\nwhat is about to end is made anew, and running servers take it up by themselves.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dev.add_argument("--folder", type=Path, help="where to put the files (default: tls/ of the data folder)")
    dev.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a further name or address of the server; may be repeated",
    )
    dev.add_argument(
        "--client", action="append", default=[], metavar="USER", help="make a client certificate, too"
    )
    add_common(dev)


def run(args: argparse.Namespace) -> int:
    """Make what is missing, and say how it is used."""
    from distributary.errors import UsageError
    from distributary.httpd import dev_certificates

    for user in args.client:
        if not user.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(f"--client {user}: expected letters, digits, dots, - and _")
    config = config_of(args, required=False)
    folder = (args.folder or config.data_dir / "tls").absolute()
    names = list(dict.fromkeys([*dev_certificates.own_names(), *(name.lower() for name in args.name)]))
    ca = dev_certificates.make_ca(folder)
    server = dev_certificates.make_server(folder, names)
    clients = {user: dev_certificates.make_client(folder, user) for user in args.client}
    files = {"tls_certificate": server.certificate, "tls_key": server.key}
    settings = {name: _from_configuration(file, config) for name, file in files.items()}
    environment = {"DISTRIBUTARY_TLS_CA": str(ca.certificate)}
    if args.json:
        print_json(
            {
                "ca": _described(ca),
                "server": _described(server),
                "clients": {user: _described(made) for user, made in clients.items()},
                "names": names,
                "settings": {name: settings for name in _SERVERS},
                "environment": environment,
            }
        )
        return 0
    for what, made in (("CA", ca), ("server", server), *clients.items()):
        print(f"{what:<10}{'made' if made.new else 'kept'}, until {made.ends.date()}: {made.certificate}")
    print(f"\nFor {', '.join(names)}. Into the configuration:\n")
    for name in _SERVERS:
        print(f"[{name}]")
        for setting, file in settings.items():
            print(f'{setting} = "{file}"')
        print()
    print("Distributary's own clients know a stack on their machine by its files. Others need the CA:\n")
    print(f"  Distributary elsewhere   export DISTRIBUTARY_TLS_CA={ca.certificate}")
    print(f"  curl                     curl --cacert {ca.certificate} https://localhost:8080/v1")
    print(f"  Node                     export NODE_EXTRA_CA_CERTS={ca.certificate}")
    print("  browsers                 add it to the authorities in their settings\n")
    print(f"Who has {ca.key.name} can be any server to those who trust the CA: keep it here.")
    return 0


def _from_configuration(file: Path, config: Config) -> str:
    """Name a file as the configuration would: from its own folder, where the file is below that."""
    folder = config.folder.absolute()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def _described(made: Made) -> dict[str, object]:
    return {
        "certificate": str(made.certificate),
        "key": str(made.key),
        "ends": made.ends.isoformat(),
        "new": made.new,
    }
