from __future__ import annotations

from tests.unit.control.conftest import Api


async def test_a_user_is_revoked_by_the_clock_of_the_store(api: Api) -> None:
    api.now = 5000.0
    reply = await api.post("/v1/users/ann@example.com/revoke")
    assert reply == {"user": "ann@example.com", "revoked_before": 5_000_000}
    assert await api.store.reader.revoked(["ann@example.com", "bob"]) == {"ann@example.com": 5_000_000}


async def test_a_name_may_have_any_letters(api: Api) -> None:
    assert (await api.post("/v1/users/a%2Fb%20%C3%A9/revoke"))["user"] == "a/b é"


async def test_what_is_no_name_is_refused(api: Api) -> None:
    for name in ("a" * 257, "two%0Alines"):
        assert (await api.post(f"/v1/users/{name}/revoke", status=400))["code"] == "bad-request"
