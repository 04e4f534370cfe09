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


def test_the_settings_that_are_printed_are_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tls", "dev"]) == 0
    said = capsys.readouterr().out
    lines = said[said.index("[publisher]") : said.index("Distributary's own")]
    assert set(tomllib.loads(lines)) == {"publisher", "control", "gateway", "socketio"}
    Path("distributary.toml").write_text(lines)
    config = load(env={})
    for server in (config.publisher, config.control, config.gateway, config.socketio):
        assert server.tls_certificate == str(tmp_path / ".distributary" / "tls" / "server.pem")
        assert Certificates(server, "control").context is not None
    assert "DISTRIBUTARY_TLS_CA=" in said
    assert "--cacert" in said


def test_a_second_run_keeps_what_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    main(["tls", "dev", "--json"])
    first = json.loads(capsys.readouterr().out)
    main(["tls", "dev", "--json"])
    second = json.loads(capsys.readouterr().out)
    assert (first["ca"]["new"], first["server"]["new"]) == (True, True)
    assert (second["ca"]["new"], second["server"]["new"]) == (False, False)
    assert {"localhost", "127.0.0.1", "::1"} <= set(first["names"])
    ssl.create_default_context(cafile=first["environment"]["DISTRIBUTARY_TLS_CA"])


def test_other_names_folders_and_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "--folder", "certs", "--name", "Box.Internal", "--client", "ann"]
    assert main(["tls", "dev", *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "box.internal" in said["names"]
    assert said["clients"]["ann"]["certificate"] == str(tmp_path / "certs" / "client-ann.pem")
    assert said["settings"]["control"]["tls_key"] == "certs/server-key.pem"


def test_what_cannot_be_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tls", "dev", "--client", "../ann"]) == 2
    assert "--client ../ann: expected letters" in capsys.readouterr().err
    Path("file").write_text("")
    assert main(["tls", "dev", "--folder", "file/tls"]) == 2
    assert "cannot be written" in capsys.readouterr().err
