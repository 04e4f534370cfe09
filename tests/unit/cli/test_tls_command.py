from __future__ import annotations

import json
import ssl
import tomllib
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.config import load
from distributary.httpd.certificates import Certificates


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_printed_settings_are_a_valid_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tls", "dev"]) == 0
    printed = capsys.readouterr().out
    lines = printed[printed.index("[publisher]") : printed.index("Distributary's own")]
    assert set(tomllib.loads(lines)) == {"publisher", "control", "gateway", "socketio"}
    Path("distributary.toml").write_text(lines)
    config = load(env={})
    for server in (config.publisher, config.control, config.gateway, config.socketio):
        assert server.tls_certificate == str(tmp_path / ".distributary" / "tls" / "server.pem")
        assert Certificates(server, "control").context is not None
    assert "DISTRIBUTARY_TLS_CA=" in printed
    assert "--cacert" in printed


def test_second_run_keeps_valid_files(capsys: pytest.CaptureFixture[str]) -> None:
    main(["tls", "dev", "--json"])
    first = json.loads(capsys.readouterr().out)
    main(["tls", "dev", "--json"])
    second = json.loads(capsys.readouterr().out)
    assert (first["ca"]["new"], first["server"]["new"]) == (True, True)
    assert (second["ca"]["new"], second["server"]["new"]) == (False, False)
    assert {"localhost", "127.0.0.1", "::1"} <= set(first["names"])
    ssl.create_default_context(cafile=first["environment"]["DISTRIBUTARY_TLS_CA"])


def test_options_set_names_folder_and_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "--folder", "certs", "--name", "Box.Internal", "--client", "ann"]
    assert main(["tls", "dev", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "box.internal" in printed["names"]
    assert printed["clients"]["ann"]["certificate"] == str(tmp_path / "certs" / "client-ann.pem")
    assert printed["settings"]["control"]["tls_key"] == "certs/server-key.pem"


def test_invalid_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tls", "dev", "--client", "../ann"]) == 2
    assert "--client ../ann: expected letters" in capsys.readouterr().err
    Path("file").write_text("")
    assert main(["tls", "dev", "--folder", "file/tls"]) == 2
    assert "cannot write" in capsys.readouterr().err
