"""``distributary tls``: certificates for development."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import Args, group, load_config, print_json

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.httpd.dev_certificates import IssuedCertificate

_SERVERS = ("publisher", "control", "gateway", "socketio")

tls_group = group(
    "tls",
    examples=(
        "distributary tls dev                        for this machine, in tls/ of the data folder",
        "distributary tls dev --name box.internal    for another name or address",
        "distributary tls dev --client ann           with a client certificate, for tls_client_ca",
    ),
)


@tls_group.command("dev")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="where to write the files (default: tls/ of the data folder)",
)
@click.option(
    "--name", multiple=True, metavar="HOST", help="another name or address of the server; may be repeated"
)
@click.option("--client", multiple=True, metavar="USER", help="create a client certificate, too")
def create_dev_certificates(args: Args) -> int:
    """Create a development CA and a server certificate for this machine.

    Files that are still valid are kept. One that expires soon is replaced, and running servers reload it.
    """
    from distributary.errors import UsageError
    from distributary.httpd import dev_certificates

    for user in args.client:
        if not user.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(f"--client {user}: expected letters, digits, dots, - and _")
    config = load_config(args, required=False)
    folder = (args.folder or config.data_dir / "tls").absolute()
    names = list(dict.fromkeys([*dev_certificates.own_names(), *(name.lower() for name in args.name)]))
    ca = dev_certificates.create_ca(folder)
    server = dev_certificates.create_server(folder, names)
    clients = {user: dev_certificates.create_client(folder, user) for user in args.client}
    files = {"tls_certificate": server.certificate, "tls_key": server.key}
    settings = {name: _relative_to_config(file, config) for name, file in files.items()}
    environment = {"DISTRIBUTARY_TLS_CA": str(ca.certificate)}
    if args.json:
        print_json(
            {
                "ca": _certificate_json(ca),
                "server": _certificate_json(server),
                "clients": {user: _certificate_json(made) for user, made in clients.items()},
                "names": names,
                "settings": {name: settings for name in _SERVERS},
                "environment": environment,
            }
        )
        return 0
    for what, made in (("CA", ca), ("server", server), *clients.items()):
        print(
            f"{what:<10}{'created' if made.new else 'kept'}, until {made.expires.date()}: {made.certificate}"
        )
    print(f"\nFor {', '.join(names)}. Add to the configuration:\n")
    for name in _SERVERS:
        print(f"[{name}]")
        for setting, file in settings.items():
            print(f'{setting} = "{file}"')
        print()
    print("Distributary's own clients trust a stack on their machine by its files. Others need the CA:\n")
    print(f"  Distributary elsewhere   export DISTRIBUTARY_TLS_CA={ca.certificate}")
    print(f"  curl                     curl --cacert {ca.certificate} https://localhost:8080/v1")
    print(f"  Node                     export NODE_EXTRA_CA_CERTS={ca.certificate}")
    print("  browsers                 add it to the certificate authorities in their settings\n")
    print(
        f"Keep {ca.key.name} secret: with it, anybody can impersonate any server to those who trust the CA."
    )
    return 0


def _relative_to_config(file: Path, config: Config) -> str:
    """Path of a file as the configuration would have it: relative, where the file is below its folder."""
    folder = config.folder.absolute()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def _certificate_json(made: IssuedCertificate) -> dict[str, object]:
    return {
        "certificate": str(made.certificate),
        "key": str(made.key),
        "ends": made.expires.isoformat(),
        "new": made.new,
    }
