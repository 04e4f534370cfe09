"""The sports of the demo, behind one interface (``game.Game``)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from distributary.demo.games.basketball import Basketball
from distributary.demo.games.football import Football
from distributary.demo.games.game import Game, Market
from distributary.demo.games.tennis import Tennis
from distributary.demo.teams import Sport

GAMES: dict[Sport, Callable[[Random, str, str], Game]] = {
    "football": Football,
    "basketball": Basketball,
    "tennis": Tennis,
}

__all__ = ["GAMES", "Game", "Market"]
