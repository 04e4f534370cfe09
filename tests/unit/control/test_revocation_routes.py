from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.control_api import Api


async def test_revocation_has_the_time_of_the_store(api: Api) -> None:
    api.now = 5000.0
    reply = await api.post("/v1/users/ann@example.com/revoke")
    assert reply == {"user": "ann@example.com", "revoked_before": 5_000_000}
    assert await api.store.reader.revoked(["ann@example.com", "bob"]) == {"ann@example.com": 5_000_000}


async def test_revocation_is_forgotten_when_no_token_can_be_so_old(tmp_path: Path) -> None:
    api = Api(tmp_path)
    auth = replace(api.config.auth, max_token_age=3600.0, leeway=30.0)
    api.context.config = replace(api.config, auth=auth)
    async with api.client:
        await api.post("/v1/users/ann/revoke")
        api.now += 86_400 + 3600 + 29
        await api.post("/v1/users/bob/revoke")
        assert list(await api.store.reader.revoked(["ann"])) == ["ann"]
        api.now += 2
        await api.post("/v1/users/bob/revoke")
        assert list(await api.store.reader.revoked(["ann", "bob"])) == ["bob"]


async def test_group_and_subject_names_may_have_any_characters(api: Api) -> None:
    assert (await api.post("/v1/users/a%2Fb%20%C3%A9/revoke"))["user"] == "a/b é"


async def test_invalid_names_are_refused(api: Api) -> None:
    for name in ("a" * 257, "two%0Alines"):
        assert (await api.post(f"/v1/users/{name}/revoke", status=400))["code"] == "bad-request"
