"""The section ``[limits]``: how much one user, one address and all together may have."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config.setting_field import Section, setting


@dataclass(frozen=True, slots=True, repr=False)
class Limits(Section):
    """How much users may have at a time, and do in a second. Counted in the store, so all processes agree.

    A token's ``limits`` say otherwise for its user. 0 is no limit. Where permission is off nobody is counted
    but by `queries_per_view` and `expensive_queries_per_view`: only programs of this machine get in there. An
    address of IPv6 is its /64 network; behind a proxy (``trusted_proxies``) it is the client's.
    """

    connections: int = setting(
        100_000, "WebSocket connections and streams of all, over all publishers.", low=0, example="20_000"
    )
    connections_per_user: int = setting(
        1_000, "WebSocket connections and streams of one user.", low=0, example="10"
    )
    connections_per_address: int = setting(
        1_000,
        "WebSocket connections and streams of one address, but for those of this machine.",
        low=0,
        example="50",
    )
    consumers_per_user: int = setting(
        20,
        "Consumer instances and topic streams of one user at a time; each is a Kafka client of the gateway.",
        low=0,
        example="100",
    )
    queries_per_address: int = setting(
        2_000,
        "Subscriptions of one address at a time, but for those of this machine; they count as for a user.",
        low=0,
        example="200",
    )
    queries_per_view: int = setting(
        100_000, "Different queries of one view at a time.", low=0, example="1_000_000"
    )
    queries_per_user: int = setting(
        20,
        "Subscriptions of one user at a time, and as many that wait for a lost client to come back; one that "
        "no index can help counts as `expensive_query_cost`.",
        low=0,
        example="100",
    )
    expensive_query_cost: int = setting(
        5,
        "What a query costs of `queries_per_user` that no index can help: each change of its view is "
        "checked against it.",
        low=1,
        example="50",
    )
    expensive_queries_per_view: int = setting(
        50, "Different queries of one view at a time that no index can help.", low=0, example="1_000"
    )
    requests_per_user: float = setting(
        200.0, "HTTP requests of one user in a second; ten times as many at once.", low=0, example="50"
    )
    requests_per_address: float = setting(
        500.0,
        "Requests of one address in a second, whoever sends them and with whatever token, but for those of "
        "this machine; ten times as many at once.",
        low=0,
        example="100",
    )
    requests: float = setting(
        20_000.0, "Requests of all in a second; ten times as many at once.", low=0, example="2_000"
    )
    cpu_ms_per_user: int = setting(
        30,
        "Milliseconds of processor time that one user may take in a second, of all our servers; ten "
        "times as many at once. A user who took more waits.",
        unit="ms",
        low=0,
        example="500",
    )
    bytes_per_user: int = setting(
        20_971_520,
        "Bytes that one user may send in a second; ten times as many at once.",
        unit="bytes",
        low=0,
        example="1_048_576",
    )
    bytes_per_address: int = setting(
        104_857_600,
        "Bytes that one address may send in a second, but for those of this machine; ten times as many at "
        "once.",
        unit="bytes",
        low=0,
        example="10_485_760",
    )
    bytes: int = setting(
        1_073_741_824,
        "Bytes that all may send in a second; ten times as many at once.",
        unit="bytes",
        low=0,
        example="104_857_600",
    )
