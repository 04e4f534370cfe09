"""A browser for tests: headless Chromium, driven through chromedriver by plain WebDriver calls."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.clock import LIMIT
from tests.support.servers import free_port

WAIT = 15 * LIMIT

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """Find the browser; None when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """One window. Every method waits for nothing but the reply, except ``until``."""

    def __init__(self, http: aiohttp.ClientSession, session: str) -> None:
        self._http = http
        self._session = session

    async def _call(self, method: str, path: str, **body: Any) -> Any:
        data = body if method == "POST" else None
        async with self._http.request(method, f"{self._session}/{path}", json=data) as reply:
            value = (await reply.json())["value"]
        assert reply.status == 200, value
        return value

    async def open(self, url: str) -> None:
        await self._call("POST", "url", url=url)

    async def phone(self) -> None:
        """Be a phone from now on; a window cannot be made as narrow as one."""
        screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": screen}
        await self._call("POST", "goog/cdp/execute", **command)

    async def run(self, script: str, *args: Any) -> Any:
        """Run the body of a function in the page and return what it returns."""
        return await self._call("POST", "execute/sync", script=script, args=list(args))

    async def until(self, script: str, *args: Any) -> Any:
        """Wait until an expression is true in the page; return its value."""
        deadline = time.monotonic() + WAIT
        while not (value := await self.run(f"return {script}", *args)):
            assert time.monotonic() < deadline, f"never true in the page: {script}"
            await asyncio.sleep(0.02)
        return value

    async def text(self, selector: str) -> str:
        return str(await self.run("return document.querySelector(arguments[0]).innerText", selector))

    async def click(self, selector: str) -> None:
        found = await self._call("POST", "element", using="css selector", value=selector)
        (element,) = found.values()
        await self._call("POST", f"element/{element}/click")

    async def press(self, key: str) -> None:
        """Press and release a key on whatever has the focus."""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        await self._call("POST", "actions", actions=[{"type": "key", "id": "keyboard", "actions": keys}])

    async def errors(self) -> list[str]:
        """What the page complained about: scripts that failed, resources that were refused."""
        entries = await self._call("POST", "se/log", type="browser")
        return [e["message"] for e in entries if e["level"] == "SEVERE"]

    async def screenshot(self, file: Path) -> None:
        """Keep what is on the screen, to look at a failure."""
        file.write_bytes(base64.b64decode(await self._call("GET", "screenshot")))


@contextlib.asynccontextmanager
async def browser(profile: Path, *, width: int = 1280, height: int = 800) -> AsyncIterator[Browser]:
    """Start chromedriver and one window; both end with the block."""
    binary, driver = chromium(), shutil.which("chromedriver")
    assert binary, "ask chromium() first"
    assert driver, "chromedriver is not installed (Debian: chromium-driver)"
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        driver, f"--port={port}", "--silent", stdout=asyncio.subprocess.DEVNULL
    )
    root = f"http://127.0.0.1:{port}"
    options = {
        "binary": binary,
        "args": [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"],
    }
    wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=4 * WAIT)) as http:
            await _answers(http, f"{root}/status")
            body = {"capabilities": {"alwaysMatch": wanted}}
            async with http.post(f"{root}/session", json=body) as reply:
                value = (await reply.json())["value"]
            assert reply.status == 200, value
            session = f"{root}/session/{value['sessionId']}"
            try:
                yield Browser(http, session)
            finally:
                async with http.delete(session):
                    pass
    finally:
        process.terminate()
        await process.wait()


async def _answers(http: aiohttp.ClientSession, url: str) -> None:
    deadline = time.monotonic() + WAIT
    while True:
        try:
            async with http.get(url) as reply:
                if (await reply.json())["value"]["ready"]:
                    return
        except aiohttp.ClientError:
            assert time.monotonic() < deadline, "chromedriver did not start"
        await asyncio.sleep(0.02)
