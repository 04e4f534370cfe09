"""What the commands use to talk to a running control API: find it, call it, raise its errors."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from distributary.auth.client_security import Trust, opener, tls_hint
from distributary.auth.token_issuer import own_headers
from distributary.config import Config, load
from distributary.errors import DistributaryError, RequestError, StackNotRunning
from distributary.model.endpoints import CONTROL_URL
from distributary.stack import stack_file
from distributary.stack.stack_file import running

DATA_DIR = "DISTRIBUTARY_DATA_DIR"


def find_control(path: Path | None, env: Mapping[str, str] = os.environ) -> str:
    """Say where the control API is: of the environment, else of the stack that the configuration describes.

    A configuration that is named outright goes before the environment. Raises StackNotRunning.
    """
    if path is None and env.get(CONTROL_URL):
        return env[CONTROL_URL].rstrip("/")
    config = stack_config(path, env)
    state = running(config.data_dir)
    found = [
        part.addresses["http"]
        for part in (state.components if state else ())
        if part.name == "control" and part.addresses
    ]
    if not found:
        raise not_running(config) if state is None else control_is_away(config)
    return found[0].rstrip("/")


def stack_config(path: Path | None, env: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration that says where a stack keeps its data; there may be no file.

    Where none runs there, and nobody named another place, it is that of the only stack of this user that
    runs on this machine, such as a demonstration's.
    """
    # Where a control API is says nothing of the stack itself, so it is no setting.
    config = load(path, {name: value for name, value in env.items() if name != CONTROL_URL}, required=False)
    if path is None and DATA_DIR not in env and running(config.data_dir) is None:
        others = stack_file.all_running()
        if len(others) == 1:
            return replace(config, data_dir=others[0])
    return config


def not_running(config: Config) -> StackNotRunning:
    """Say that no stack runs where the configuration says that it keeps its data."""
    others = stack_file.all_running()
    if others:
        return StackNotRunning(
            f"no stack runs in {config.data_dir}, but there run {', '.join(map(str, others))}",
            hint=f"Say which one: {DATA_DIR}={others[0]}",
        )
    return StackNotRunning(
        f"no stack runs in {config.data_dir}",
        hint=f"start it with: distributary up, or say where one is: {CONTROL_URL}=http://HOST:PORT",
    )


def control_is_away(config: Config) -> StackNotRunning:
    """Say that a stack runs without its control API."""
    return StackNotRunning(
        f"the control API of the stack in {config.data_dir} does not run now",
        hint="It is started again; see: distributary status",
    )


def connect(
    path: Path | None, env: Mapping[str, str] = os.environ, *, timeout: float = 10.0
) -> ControlClient:
    """Find the control API; call it as whoever the environment says, else by the stack's own token."""
    url = find_control(path, env)
    # A token that we make ourselves goes to our own stack only, not to any address of the environment.
    own = path is not None or not env.get(CONTROL_URL)
    config = stack_config(path, env) if own else None
    trust = Trust.of_stack(config.data_dir, env) if config else Trust(env)
    return ControlClient(url, timeout, headers=lambda: own_headers(env, config), trust=trust)


class ControlClient:
    """Calls one control API, blocking; ``headers`` is asked for those of every call."""

    def __init__(
        self,
        url: str,
        timeout: float = 10.0,
        headers: Callable[[], Mapping[str, str]] = dict,
        trust: Trust | None = None,
    ) -> None:
        self._trust = trust or Trust()
        self.url = url
        self._timeout = timeout
        self._headers = headers

    def get(self, path: str) -> Any:
        """Read a resource."""
        return self.call("GET", path)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Make a call; None for an empty reply. Raises the error that the API replied with."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._headers()}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            context = self._trust.context(self.url)
            https = [urllib.request.HTTPSHandler(context=context)] if context else []
            with opener(*https).open(request, timeout=self._timeout) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(self.url, error.code, error.read()) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise StackNotRunning(
                f"the control API at {self.url} does not answer: {reason}",
                hint=tls_hint(reason) or "is the stack running?",
            ) from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise StackNotRunning(
                f"what answers at {self.url} is not the control API", hint=f"correct {CONTROL_URL}"
            ) from None


def view_path(name: str) -> str:
    """The address of a view: its rows are read there, its definition is put there."""
    return f"/v1/views/{quote(name, safe='')}"


def status_path(name: str) -> str:
    """The address of what is known of a view."""
    return f"{view_path(name)}/status"


def _refused(url: str, status: int, text: bytes) -> DistributaryError:
    try:
        said = json.loads(text)["error"]
        kind = _kinds(DistributaryError).get(said["code"], RequestError)
        return kind(said["message"], hint=said["hint"])
    except (ValueError, KeyError, TypeError):
        return StackNotRunning(f"what answers at {url} is not the control API (HTTP {status})")


def _kinds(base: type[DistributaryError]) -> dict[str, type[DistributaryError]]:
    found = {base.code: base}
    for kind in base.__subclasses__():
        found |= {code: sub for code, sub in _kinds(kind).items() if code not in found}
    return found
