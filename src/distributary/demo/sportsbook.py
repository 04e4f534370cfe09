"""A simulated sportsbook: matches are played, and the prices of their markets move.

Pure: the same random numbers always give the same changes, and nothing here reads a clock
or does I/O. Every record is complete (it contains the whole state of its match or of its
selection), so a reader may start anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec

from distributary.demo.games import GAMES, Game, Market
from distributary.demo.pricing import prices, tempered
from distributary.demo.teams import LEAGUES, SPORTS, Sport

ODDS = "sportsbook.odds"
MATCHES = "sportsbook.matches"

Status = Literal["open", "suspended", "settled"]

_REVERSION, _STEP = 0.06, 0.016  # how fast the noise on a price dies down, and how far one move takes it
_SLICE = 0.05  # seconds; matches are played in slices of at least this, however fast prices move
_LINGER = 60.0  # seconds a finished match stays on the board
_KICK_OFF = (20.0, 150.0)  # seconds from a match's listing to its start


class Event(NamedTuple):
    """One record for Kafka; a value of None deletes the row."""

    topic: str
    key: str
    value: dict[str, Any] | None


_encoder = msgspec.json.Encoder(decimal_format="number")


def encode(value: dict[str, Any]) -> bytes:
    """Encode a record's value as JSON; a price has two decimals (2.50, not 2.5)."""
    return _encoder.encode(value)


class Book:
    """One market of one match: its noise, its prices, its status."""

    def __init__(self, match: Match, market: Market) -> None:
        self.match = match
        self.market = market
        self.status: Status = "open"
        self.noise = [0.0] * len(market.outcomes)
        """By which each price differs from its chance, in log space."""
        self.chances: tuple[float, ...] = ()
        self.prices: list[Decimal] = []

    def reprice(self) -> list[int]:
        """Compute the prices from the chances and the noise; return the outcomes whose price changed."""
        before, self.prices = self.prices, prices(tempered(self.chances, self.noise))
        return [i for i, price in enumerate(self.prices) if not before or before[i] != price]

    def move(self, rng: Random) -> list[int]:
        """Move the noise by a small random step, pulled back towards the chances."""
        self.noise = [n * (1 - _REVERSION) + rng.gauss(0, _STEP) for n in self.noise]
        return self.reprice()

    def event(self, i: int) -> Event:
        """The state of one selection."""
        match, (outcome, label) = self.match, self.market.outcomes[i]
        key = f"{match.id}:{self.market.id}:{outcome}"
        value: dict[str, Any] = {
            "market_id": key,
            "match_id": match.id,
            "sport": match.sport,
            "league": match.league,
            "match": match.name,
            "market": self.market.title,
            "selection": label,
            "price": self.prices[i],
            "status": self.status,
        }
        if self.status == "settled":
            # The last price stays: a settled row must still pass the view's filter.
            value["result"] = "won" if self.chances[i] > 0.5 else "lost"
        return Event(ODDS, key, value)

    def events(self) -> list[Event]:
        """The state of every selection."""
        return [self.event(i) for i in range(len(self.prices))]


class Match:
    """One match, from its listing to its end."""

    def __init__(self, rng: Random, id: str, sport: Sport, league: str, sides: tuple[str, str]) -> None:
        self.id, self.sport, self.league = id, sport, league
        self.home, self.away = sides
        self.name = f"{self.home} v {self.away}"
        self.game: Game = GAMES[sport](rng, *sides)
        self.heat = rng.uniform(0.5, 2.0)
        """How often its prices move, compared with other matches."""
        self.kick_off = 0.0
        self.live = False
        self.reopens: float | None = None
        """When suspended markets open again."""
        self.ended: float | None = None
        """When the game ended."""
        self.books = [Book(self, market) for market in self.game.markets]
        self.shown: tuple[object, ...] = ()
        """The scoreboard of the last record."""
        self.update_chances()
        for book in self.books:
            book.reprice()

    @property
    def status(self) -> str:
        """upcoming, live or finished."""
        return "finished" if self.game.over else "live" if self.live else "upcoming"

    def update_chances(self) -> None:
        """Bring the chances of all markets up to the state of the game."""
        chances = self.game.chances()
        for book in self.books:
            book.chances = chances[book.market.id]

    def scoreboard(self) -> tuple[object, ...]:
        """When one of these changes, there is a new record of the match."""
        return (self.game.score, int(self.game.clock), self.game.period, self.status)

    def event(self, start: datetime) -> Event:
        """The state of the match."""
        score, minute, period, status = self.shown = self.scoreboard()
        value = {
            "match_id": self.id,
            "name": self.name,
            "sport": self.sport,
            "league": self.league,
            "home": self.home,
            "away": self.away,
            "score": score,
            "minute": minute,
            "period": period if self.live else "",
            "status": status,
            "starts": (start + timedelta(seconds=round(self.kick_off))).isoformat(timespec="seconds"),
        }
        return Event(MATCHES, self.id, value)


class Sportsbook:
    """All matches. ``open`` lists them, ``step`` lets time pass, ``close`` removes everything.

    ``matches`` is how many are on the board (finished ones, which linger a little, not counted);
    ``speed`` is how many seconds a match plays in one second of the caller's.
    """

    def __init__(self, rng: Random, start: datetime, *, matches: int = 12, speed: float = 12.0) -> None:
        self.rng, self.start, self.speed = rng, start, speed
        self.now = self.played = 0.0
        self._listed = 0
        self.matches: list[Match] = []
        for n in range(matches):
            match = self._list()
            if n % 4 != 3:  # three of four are under way at the start
                self._warm_up(match)
            self.matches.append(match)

    def _list(self) -> Match:
        """Draw the next match from the sides of one league that are not playing."""
        sport = SPORTS[self._listed % len(SPORTS)]
        leagues = LEAGUES[sport]
        league = self.rng.choice(list(leagues))
        busy = {side for match in self.matches for side in (match.home, match.away)}
        # With very many matches on the board a league may run out of sides: then they play twice.
        free = [side for side in leagues[league] if side not in busy]
        home, away = self.rng.sample(free if len(free) > 1 else leagues[league], 2)
        self._listed += 1
        match = Match(self.rng, str(1000 + self._listed), sport, league, (home, away))
        match.kick_off = self.now + self.rng.uniform(*_KICK_OFF)
        return match

    def _warm_up(self, match: Match) -> None:
        match.live = True
        until = match.game.SHORTEST * self.rng.uniform(0.05, 0.95)
        while match.game.clock < until:
            match.game.play(self.rng, 0.25)
        match.kick_off = -match.game.clock * 60 / self.speed
        match.update_chances()
        for book in match.books:
            book.reprice()

    def open(self) -> list[Event]:
        """The state of everything at the start."""
        return [event for match in self.matches for event in self._listing(match)]

    def _listing(self, match: Match) -> list[Event]:
        self._settle_decided(match)
        return [match.event(self.start), *(event for book in match.books for event in book.events())]

    def close(self) -> list[Event]:
        """Remove every row, so that the next run does not find matches that never end."""
        return [event for match in self.matches for event in self._gone(match)]

    @staticmethod
    def _gone(match: Match) -> list[Event]:
        keys = [event.key for book in match.books for event in book.events()]
        return [*(Event(ODDS, key, None) for key in keys), Event(MATCHES, match.id, None)]

    def step(self, seconds: float) -> list[Event]:
        """Let time pass: matches are played, and the price of one market moves."""
        self.now += seconds
        out: list[Event] = []
        if self.now - self.played >= _SLICE:
            minutes = (self.now - self.played) * self.speed / 60
            self.played = self.now
            for match in list(self.matches):
                out += self._play(match, minutes)
        return out or self._move()

    def _move(self) -> list[Event]:
        """Move an open market, if there is one, preferably of a match with high heat."""
        books = [b for m in self.matches if m.reopens is None for b in m.books if b.status == "open"]
        if not books:
            return []
        weights = [b.match.heat * (1.0 if b.match.live else 0.2) for b in books]
        for book in self.rng.choices(books, weights, k=20):
            moved = book.move(self.rng)
            if moved:
                return [book.event(i) for i in moved]
        return []

    def _play(self, match: Match, minutes: float) -> list[Event]:
        if match.ended is not None:
            if self.now - match.ended < _LINGER:
                return []
            self.matches.remove(match)
            return self._gone(match)
        if not match.live:
            if self.now < match.kick_off:
                return []
            match.live = True
        out: list[Event] = []
        suspend = match.game.play(self.rng, minutes)
        if match.scoreboard() != match.shown:
            out.append(match.event(self.start))
            match.update_chances()
        if match.game.over:
            match.ended = self.now
            out += self._settle_decided(match)
            successor = self._list()
            self.matches.append(successor)
            return out + self._listing(successor)
        out += self._settle_decided(match)
        if suspend:
            if match.reopens is None:
                out += self._turn(match, "open", "suspended")
            match.reopens = self.now + self.rng.uniform(3.0, 8.0)
        elif match.reopens is not None and self.now >= match.reopens:
            match.reopens = None
            out += self._turn(match, "suspended", "open")
        return out

    @staticmethod
    def _turn(match: Match, before: Status, after: Status) -> list[Event]:
        out: list[Event] = []
        for book in match.books:
            if book.status == before:
                book.status = after
                if after == "open":
                    book.reprice()
                out += book.events()
        return out

    @staticmethod
    def _settle_decided(match: Match) -> list[Event]:
        out: list[Event] = []
        for book in match.books:
            if book.status != "settled" and max(book.chances) == 1.0:
                book.status = "settled"
                out += book.events()
        return out


def events(book: Sportsbook, rate: float = 60.0) -> Iterator[tuple[float, Event]]:
    """Yield changes without end, each with the seconds to wait before it: ``rate`` a second on average.

    Simultaneous changes come together (a goal suspends all markets of a match at once), and
    the pause after them is longer in return.
    """
    for event in book.open():
        yield 0.0, event
    owed = 1
    waiting = 0.0
    while True:
        pause = owed * book.rng.expovariate(1.0) / rate
        waiting += pause
        burst = book.step(pause)
        owed = max(1, len(burst))
        for event in burst:
            yield waiting, event
            waiting = 0.0
