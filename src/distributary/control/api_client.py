"""The client of the control API for our own commands: finds it, calls it, and raises its errors."""

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
    """Return the URL of the control API: from the environment, else that of the configured stack.

    An explicit configuration has priority over the environment. Raises StackNotRunning.
    """
    if path is None and env.get(CONTROL_URL):
        return env[CONTROL_URL].rstrip("/")
    config = stack_config(path, env)
    state = running(config.data_dir)
    found = [
        component.addresses["http"]
        for component in (state.components if state else ())
        if component.name == "control" and component.addresses
    ]
    if not found:
        raise not_running(config) if state is None else control_not_running(config)
    return found[0].rstrip("/")


def stack_config(path: Path | None, env: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration, with the data folder of a stack; the file is optional.

    If no stack runs there and no other folder was named, it is the folder of the only stack of this user that
    runs on this machine, such as that of a demo.
    """
    # The URL of a control API is not about the stack itself, so it is not a setting.
    config = load(path, {name: value for name, value in env.items() if name != CONTROL_URL}, required=False)
    if path is None and DATA_DIR not in env and running(config.data_dir) is None:
        others = stack_file.all_running()
        if len(others) == 1:
            return replace(config, data_dir=others[0])
    return config


def not_running(config: Config) -> StackNotRunning:
    """Create the error if no stack runs in the configured data folder."""
    others = stack_file.all_running()
    if others:
        return StackNotRunning(
            f"no stack is running in {config.data_dir}, but in {', '.join(map(str, others))}",
            hint=f"Choose one with {DATA_DIR}={others[0]}",
        )
    return StackNotRunning(
        f"no stack is running in {config.data_dir}",
        hint=f"start it with: distributary up, or set {CONTROL_URL}=http://HOST:PORT",
    )


def control_not_running(config: Config) -> StackNotRunning:
    """Create the error if a stack is running without its control API."""
    return StackNotRunning(
        f"the control API of the stack in {config.data_dir} is not running",
        hint="It is being restarted; see: distributary status",
    )


def connect(
    path: Path | None, env: Mapping[str, str] = os.environ, *, timeout: float = 10.0
) -> ControlClient:
    """Find the control API; its credentials are those of the environment, else the stack's own token."""
    url = find_control(path, env)
    # A token that is created here is sent to our own stack only, not to any URL of the environment.
    own = path is not None or not env.get(CONTROL_URL)
    config = stack_config(path, env) if own else None
    trust = Trust.of_stack(config.data_dir, env) if config else Trust(env)
    return ControlClient(url, timeout, headers=lambda: own_headers(env, config), trust=trust)


class ControlClient:
    """Calls a control API, blocking; ``headers`` is called for the headers of each request."""

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
        """Send a request; returns None for an empty response. Raises the error of the response."""
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
                f"cannot connect to the control API at {self.url}: {reason}",
                hint=tls_hint(reason) or "is the stack running?",
            ) from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise StackNotRunning(
                f"the server at {self.url} is not a control API", hint=f"correct {CONTROL_URL}"
            ) from None


def view_path(name: str) -> str:
    """Return the path of a view, for its rows and its definition."""
    return f"/v1/views/{quote(name, safe='')}"


def status_path(name: str) -> str:
    """Return the path of a view's status."""
    return f"{view_path(name)}/status"


def _refused(url: str, status: int, text: bytes) -> DistributaryError:
    try:
        error = json.loads(text)["error"]
        kind = _kinds(DistributaryError).get(error["code"], RequestError)
        return kind(error["message"], hint=error["hint"])
    except (ValueError, KeyError, TypeError):
        return StackNotRunning(f"the server at {url} is not a control API (HTTP {status})")


def _kinds(base: type[DistributaryError]) -> dict[str, type[DistributaryError]]:
    found = {base.code: base}
    for kind in base.__subclasses__():
        found |= {code: sub for code, sub in _kinds(kind).items() if code not in found}
    return found
