"""How many connections there are, in total and for each client address, and their limits. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from distributary.auth.addresses import Address, client_name, parse_address
from distributary.config.server_sections import Listening


class Headers(Protocol):
    """A request's headers, of which a name may be on several lines; names ignore case."""

    def getall(self, name: str, default: list[str], /) -> list[str]:
        """Return the values of all lines of a name."""


class Connections:
    """Counts the connections of one process; its listeners may share it.

    ``enter`` and ``leave`` are for connections, ``begin`` and ``end`` for requests that a proxy forwards:
    several clients may share one of its connections, so they are counted by their requests in flight.
    ``refused`` counts by limit what was over it, ``timed_out`` what was closed because the client was slow.
    """

    def __init__(self, settings: Listening, *, exempt_loopback: bool = True) -> None:
        self._limit = settings.max_connections
        self._limit_per_address = settings.max_connections_per_address
        self._proxies = [ipaddress.ip_network(one) for one in settings.trusted_proxies]
        self._exempt_loopback = exempt_loopback
        self._by_client: Counter[str] = Counter()
        self.open = 0
        self.refused: Counter[str] = Counter()
        self.timed_out: Counter[str] = Counter()

    def enter(self, peer: str) -> str | None:
        """Count a connection; None if it is over a limit, else the argument for `leave`."""
        if self.open >= self._limit:
            self.refused["total"] += 1
            return None
        client = "" if self.is_proxy(peer) else self._client(peer)
        if not self._count(client):
            return None
        self.open += 1
        return client

    def leave(self, client: str) -> None:
        """Count a connection as closed."""
        self.open -= 1
        self._uncount(client)

    def begin(self, peer: str, headers: Headers) -> str | None:
        """Count a request that a proxy may have forwarded; None if its client has too many."""
        if not self.is_proxy(peer):
            return ""
        client = self._client(self.client_address(peer, headers))
        return client if self._count(client) else None

    def end(self, client: str) -> None:
        """Count a request as done; ``client`` is what `begin` returned."""
        self._uncount(client)

    def client_address(self, peer: str, headers: Headers) -> str:
        """Return the address that a request is from.

        Every proxy adds the address of its own client, at the right or in a line below (HAProxy). So the
        client is the first address from the right that is not a trusted proxy; anything further left may be
        forged.
        """
        found = peer
        forwarded = ",".join(headers.getall("X-Forwarded-For", []))
        for name in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
            if not self.is_proxy(found) or parse_address(name) is None:
                break
            found = name
        return found

    def is_proxy(self, peer: str) -> bool:
        """True if an address is that of a trusted proxy."""
        address = parse_address(peer) if self._proxies else None
        return address is not None and _within(address, self._proxies)

    def _count(self, client: str) -> bool:
        if client and self._by_client[client] >= self._limit_per_address:
            self.refused["address"] += 1
            return False
        if client:
            self._by_client[client] += 1
        return True

    def _uncount(self, client: str) -> None:
        if client:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def _client(self, peer: str) -> str:
        return client_name(peer, exempt_loopback=self._exempt_loopback)


def _within(address: Address, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    return any(address.version == one.version and address in one for one in networks)
