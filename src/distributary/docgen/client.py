"""The page of the Kafka clients' properties, from their table."""

from __future__ import annotations

from distributary.kafka.properties import PROPERTIES, How, Property

_INTRO = """\
# Properties of Kafka clients

<!-- Made by `python -m distributary.docgen` from src/distributary/kafka/properties.py. Do not edit. -->

What becomes of each property of a [client's configuration](../how-to/client.md), and of
`kafka.properties` in `distributary.toml`. Names are the Java client's, those of Spark's version. A number
that is good for Java but beyond what librdkafka takes is brought to the nearer limit, and the log says so.

Where nothing is said, the Java client's defaults hold (`acks=all`, `enable.idempotence` unless something
is against it, `linger.ms=0`, `delivery.timeout.ms=120000`, partitions by murmur2), but for
`isolation.level`, which is `read_committed`.
"""

_TITLES: dict[How, str] = {
    "same": "Passed on",
    "renamed": "Passed on under another name",
    "translated": "Translated",
    "ours": "Done by this client",
    "ignored": "Left out, with a word in the log",
}


def page() -> str:
    """The whole page."""
    parts = [_INTRO]
    for how, title in _TITLES.items():
        rows = [row for row in PROPERTIES.values() if row.how == how]
        third = {"same": "", "renamed": " librdkafka's name |"}.get(how, " what happens |")
        parts.append(
            f"\n## {title}\n\n| property | for | type |{third}\n|---|---|---|{'---|' if third else ''}\n"
        )
        parts += [_row(row) for row in rows]
    names = ", ".join(f"`{row.name}`" for row in PROPERTIES.values() if row.how == "librdkafka")
    parts.append(
        f"\n## Only librdkafka's\n\nThe Java client does not know them, and does not mind: {names}.\n"
    )
    return "".join(parts)


def _row(row: Property) -> str:
    last = f" `{row.to}` |" if row.how == "renamed" else f" {row.about} |" if row.about else ""
    return f"| `{row.name}` | {row.side} | {row.kind} |{last}\n"
