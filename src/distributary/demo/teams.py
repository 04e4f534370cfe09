"""Who plays whom: leagues, clubs and players of the simulated sportsbook, all invented."""

from __future__ import annotations

from typing import Literal

Sport = Literal["football", "tennis", "basketball"]

SPORTS: tuple[Sport, ...] = ("football", "football", "football", "basketball", "tennis")
"""What the next match is, in turn: three of five are football, as on a real Saturday."""

LEAGUES: dict[Sport, dict[str, tuple[str, ...]]] = {
    "football": {
        "England · First League": (
            "Northgate United",
            "Leeds Rovers",
            "Harbour Athletic",
            "Camden Town",
            "Mersey Wanderers",
            "Queen's Park Lane",
            "Tyne City",
            "Brighton Albion",
        ),
        "Spain · Liga Mayor": (
            "Atlético Ribera",
            "Real Almería",
            "Deportivo Sur",
            "Unión Bilbao",
            "CF Valencia Mar",
            "Sevilla Norte",
        ),
        "Germany · Erste Liga": (
            "SV Hafen Hamburg",
            "Union Köln",
            "TSV Isar München",
            "Rot-Weiß Leipzig",
            "FC Neckar 09",
            "Borussia Ruhr",
        ),
        "Italy · Lega Uno": (
            "AC Torino Alta",
            "Lazio Mare",
            "US Napoli Porto",
            "Virtus Verona",
            "Genova 1904",
            "Fiorenza",
        ),
    },
    "basketball": {
        "US · Continental League": (
            "Portland Pines",
            "Austin Comets",
            "Boston Harbors",
            "Denver Summit",
            "Chicago Gales",
            "Oakland Tides",
            "Memphis Kings",
            "Miami Herons",
        ),
        "Europe · Champions Cup": (
            "BC Žalgiris Nova",
            "Basket Milano Est",
            "Olympia Piraeus",
            "KK Beograd",
            "Anadolu Stars",
            "Baskonia Vitoria",
        ),
    },
    "tennis": {
        "ATP · Hamburg Open": (
            "M. Halvorsen",
            "J. O'Brien",
            "T. Kowalczyk",
            "R. Ferrari",
            "L. Dubois",
            "K. Nakagawa",
            "S. Petrović",
            "D. van der Meer",
        ),
        "WTA · Lisbon Ladies": (
            "A. Lindqvist",
            "C. Moreau",
            "N. Sokolova",
            "I. Marques",
            "E. Brandt",
            "Y. Tanaka",
            "Z. Horáková",
            "P. Castellano",
        ),
    },
}
