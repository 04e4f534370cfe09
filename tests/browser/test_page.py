"""The demo's page in headless Chromium: picked matches, moving odds, lost connections, stale sources."""

from __future__ import annotations

import time
from typing import Any

from tests.browser.publisher import Listener, Publisher
from tests.browser.webdriver import Browser

DOWN, ENTER = "\ue015", "\ue007"

Row = dict[str, Any]


def match(id: str, home: str, away: str, **more: Any) -> Row:
    row: Row = {"match_id": id, "name": f"{home} v {away}", "sport": "football", "league": "Test League"}
    row |= {"home": home, "away": away, "score": "0-0", "minute": 12, "period": "1st half", "status": "live"}
    return {**row, "starts": "2026-03-14T15:00:00+00:00", **more}


def price(match_id: str, market: str, outcome: str, value: float, **more: Any) -> Row:
    row: Row = {"market_id": f"{match_id}:{market}:{outcome}", "match_id": match_id, "market": market}
    return {**row, "selection": outcome, "price": value, "status": "open", **more}


MATCHES = {
    "1001": match("1001", "Leeds Rovers", "Tyne City"),
    "1002": match("1002", "Union Köln", "FC Neckar 09", score="2-1", minute=67, period="2nd half"),
    "1003": match("1003", "J. O'Brien", "R. Ferrari", sport="tennis", score="6-4 3-2", period="Set 2"),
    "1004": match("1004", "Fiorenza", "Lazio Mare", status="upcoming", period=""),
}


def odds(match_id: str) -> dict[str, Row]:
    # In no order, as a store gives them.
    rows = [
        price(match_id, "ou25", "under", 1.95),
        price(match_id, "1x2", "away", 3.4),
        price(match_id, "1x2", "home", 2.5),
        price(match_id, "ou25", "over", 1.85),
        price(match_id, "1x2", "draw", 3.05),
    ]
    return {row["market_id"]: row for row in rows}


def cell(key: str) -> str:
    return f'.selection[data-market="{key}"]'


async def opened(publisher: Publisher, window: Browser) -> tuple[Listener, Listener]:
    """Open the page; it picks the first live match by itself."""
    await window.open(publisher.url)
    matches = await publisher.next("matches")
    await matches.snapshot(MATCHES, "e1:10")
    picked = await publisher.next("odds")
    assert picked.where == "match_id = '1001'"
    await picked.snapshot(odds("1001"), "e1:10")
    await window.until("document.querySelectorAll('.selection').length === 5")
    return matches, picked


async def move(listener: Listener, key: str, seq: int, **changed: Any) -> None:
    data = {"op": "change", "key": key, "time": int(time.time() * 1000) - 7, "changed": changed}
    await listener.send("change", data, f"e1:{seq}")


async def test_page_lists_matches_by_status(publisher: Publisher, window: Browser) -> None:
    matches, _ = await opened(publisher, window)
    groups = await window.run(
        "return Object.fromEntries([...document.querySelectorAll('#list section:not([hidden])')]"
        ".map(s => [s.dataset.group, [...s.querySelectorAll('button')].map(b => b.dataset.match)]))"
    )
    assert groups == {"live": ["1001", "1002", "1003"], "upcoming": ["1004"]}
    assert (await window.text('[data-match="1002"] .score')).split() == ["2", "1"]
    assert (await window.text('[data-match="1003"] .score')).split() == ["6", "4", "3", "2"]
    assert await window.text('[data-match="1002"] .when') == "67\N{PRIME}"
    await move(matches, "1004", 11, status="live", period="1st half", minute=0)
    await window.until("document.querySelectorAll('[data-group=live] button').length === 4")
    await matches.send("change", {"op": "remove", "key": "1002", "time": 0}, "e1:12")
    await window.until("!document.querySelector('[data-match=\"1002\"]')")
    new = match("1005", "Genova 1904", "Virtus Verona")
    await matches.send("change", {"op": "add", "key": "1005", "time": 0, "row": new}, "e1:13")
    await window.until("document.querySelector('[data-match=\"1005\"]')")
    assert await window.errors() == []


async def test_page_shows_moving_odds_of_the_selected_match(publisher: Publisher, window: Browser) -> None:
    _, first = await opened(publisher, window)
    await window.click('[data-match="1002"]')
    picked = await publisher.next("odds")
    assert picked.where == "match_id = '1002'"
    await picked.snapshot(odds("1002"), "e1:20")
    home, draw = "1002:1x2:home", "1002:1x2:draw"
    await window.until(f"document.querySelector('{cell(home)}')")
    assert await window.text("#m-sides") == "Union Köln\n2\n1\nFC Neckar 09"
    order = "return [...document.querySelectorAll('.selection')].map(s => s.dataset.market.slice(5))"
    wanted = ["1x2:home", "1x2:draw", "1x2:away", "ou25:over", "ou25:under"]
    assert await window.run(order) == wanted
    assert await window.text(f"{cell(home)} .price") == "2.50"

    await window.run(
        "const animate = Element.prototype.animate; window.flashed = [];"
        "Element.prototype.animate = function (...how) {"
        "  flashed.push(this.closest('.selection').dataset.market); return animate.apply(this, how); }"
    )
    await move(picked, home, 21, price=2.6)
    await move(picked, draw, 22, price=3.0)
    await window.until(f"document.querySelector('{cell(draw)}').dataset.way === 'down'")
    assert await window.text(f"{cell(home)} .price") == "2.60"
    assert await window.run(f"return document.querySelector('{cell(home)}').dataset.way") == "up"
    assert await window.run("return flashed") == [home, draw]
    assert (await window.text("#tape li")).split("\n")[-2:] == [
        "3.05 → 3.00",
        await window.text("#tape .took"),
    ]

    # What the first match's stream says now concerns nobody any more.
    assert await window.run("return document.querySelectorAll('[aria-current=true]').length") == 1
    first.drop()

    await move(picked, home, 23, status="suspended")
    await window.until(f"document.querySelector('{cell(home)}').dataset.status === 'suspended'")
    assert await window.text('.market[data-market="1x2"] .badge') == "suspended"
    await move(picked, home, 24, status="settled", result="won")
    await window.until(f"document.querySelector('{cell(home)}').dataset.result === 'won'")
    assert await window.errors() == []


async def test_page_measures_the_latency(publisher: Publisher, window: Browser) -> None:
    _, picked = await opened(publisher, window)
    for seq in range(5):
        await move(picked, "1001:1x2:home", 11 + seq, price=2.5 + seq / 100)
    await window.until("/^[0-9]+ ms$/.test(document.getElementById('p50').textContent)")
    assert int((await window.text("#p50")).split()[0]) >= 7


async def test_page_list_can_be_used_by_keyboard(publisher: Publisher, window: Browser) -> None:
    await opened(publisher, window)
    await window.run("document.querySelector('[data-match=\"1001\"]').focus()")
    await window.press(DOWN)
    await window.press(DOWN)
    assert await window.run("return document.activeElement.dataset.match") == "1003"
    await window.press(ENTER)
    assert (await publisher.next("odds")).where == "match_id = '1003'"
    await window.until("document.activeElement.getAttribute('aria-current') === 'true'")


async def test_page_resumes_after_a_lost_connection(publisher: Publisher, window: Browser) -> None:
    _, picked = await opened(publisher, window)
    home = "1001:1x2:home"
    await move(picked, home, 57, price=2.52)
    await window.until(f"document.querySelector('{cell(home)} .price').innerText === '2.52'")
    picked.drop()
    again = await publisher.next("odds")
    assert again.last_event_id == "e1:57"
    # Resumed: no snapshot, only what was missed. The rows on screen must have stayed.
    await again.send("ready", {"op": "ready", "position": "e1:57"}, "e1:57")
    await move(again, home, 58, price=2.54)
    await window.until(f"document.querySelector('{cell(home)} .price').innerText === '2.54'")
    assert await window.run("return document.querySelectorAll('.selection').length") == 5
    await window.until("document.getElementById('state').dataset.state === 'live'")


async def test_page_replaces_all_rows_by_a_new_snapshot(publisher: Publisher, window: Browser) -> None:
    matches, picked = await opened(publisher, window)
    picked.drop()
    again = await publisher.next("odds")
    first, second = price("1001", "1x2", "home", 9.0), price("1001", "1x2", "away", 1.05)
    # In two pages, and only the end of the last makes it true.
    rows = [[first["market_id"], first]]
    await again.send("snapshot", {"op": "snapshot", "rows": rows, "more": True})
    await move(matches, "1001", 90, minute=13)
    await window.until("document.getElementById('m-clock').innerText.includes('13')")
    assert await window.run("return document.querySelectorAll('.selection').length") == 5
    await again.snapshot({second["market_id"]: second}, "e2:3")
    await window.until("document.querySelectorAll('.selection').length === 2")
    assert await window.text(f"{cell('1001:1x2:home')} .price") == "9.00"


async def test_page_retries_a_refused_stream(publisher: Publisher, window: Browser) -> None:
    # After a 503 a browser's EventSource is closed for good.
    matches, _ = await opened(publisher, window)
    publisher.refuse = 2
    matches.drop()
    await window.until("document.getElementById('state').dataset.state === 'reconnecting'")
    again = await publisher.next("matches")
    await again.snapshot({"1001": MATCHES["1001"]}, "e2:1")
    await window.until("document.querySelectorAll('#list button').length === 1")
    await window.until("document.getElementById('state').dataset.state === 'live'")


async def test_page_shows_staleness_until_it_ends(publisher: Publisher, window: Browser) -> None:
    matches, _ = await opened(publisher, window)
    assert await window.run("return document.getElementById('stale').hidden")
    await matches.send("stale", {"op": "stale", "since": 1_700_000_000_000})
    await window.until("!document.getElementById('stale').hidden")
    assert "No new records from the source since" in await window.text("#stale")
    await matches.send("stale", {"op": "fresh"})
    await window.until("document.getElementById('stale').hidden")
    matches.drop()
    await (await publisher.next("matches")).snapshot(MATCHES, "e1:99", stale=True)
    await window.until("!document.getElementById('stale').hidden")


async def test_page_escapes_a_quote_in_an_id(publisher: Publisher, window: Browser) -> None:
    await window.open(publisher.url + "#match=x'%20or%20'1'='1")
    views = {}
    for _ in range(2):
        listener = await publisher.any()
        views[listener.view] = listener.where
    assert views["odds"] == "match_id = 'x'' or ''1''=''1'"


async def test_page_shows_list_or_match_on_a_phone(publisher: Publisher, window: Browser) -> None:
    await window.phone()
    await window.open(publisher.url)
    await (await publisher.next("matches")).snapshot(MATCHES, "e1:1")
    await window.until("document.querySelectorAll('#list button').length === 4")
    await window.click('[data-match="1002"]')
    await (await publisher.next("odds")).snapshot(odds("1002"), "e1:1")
    await window.until("document.querySelectorAll('.selection').length === 5")
    assert await window.run("return getComputedStyle(document.getElementById('list')).display") == "none"
    assert await window.run("return document.documentElement.scrollWidth <= innerWidth")
    await window.click("#back")
    await window.until("getComputedStyle(document.getElementById('list')).display !== 'none'")
    assert await window.run("return document.activeElement.dataset.match") == "1002"
