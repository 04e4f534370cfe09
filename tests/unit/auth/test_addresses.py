from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.signed_tokens import SECRET

from distributary.auth.addresses import check_exposure, is_loopback
from distributary.config import Auth, Config, Control, Gateway, Publisher
from distributary.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_open_stack_may_listen_on_this_machine(host: str) -> None:
    check_exposure(Config(control=Control(host=host), publisher=Publisher(host=host)))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "example.com", "localhost.example.com", ""]
)
def test_open_stack_may_not_listen_elsewhere(host: str) -> None:
    for config in (
        Config(control=Control(host=host)),
        Config(publisher=Publisher(host=host)),
        Config(gateway=Gateway(host=host)),
    ):
        with pytest.raises(ConfigError) as caught:
            check_exposure(config)
        assert f'host = "{host}"' in caught.value.message
        assert "auth.hmac_secret" in caught.value.hint
    auth = Auth(hmac_secret=SECRET)
    check_exposure(
        Config(
            control=Control(host=host),
            publisher=Publisher(host=host),
            gateway=Gateway(host=host),
            auth=auth,
        )
    )


@given(st.ip_addresses())
def test_loopback_addresses_are_recognized(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert is_loopback(str(address)) == address.is_loopback


@pytest.mark.parametrize("server", ["control", "publisher", "gateway"])
def test_open_stack_may_not_listen_to_pages_of_every_site(server: str) -> None:
    kind = {"control": Control, "publisher": Publisher, "gateway": Gateway}[server]
    for origins in (("*",), ("https://app.example.com", "*")):
        with pytest.raises(ConfigError, match=f"{server}.origins") as caught:
            check_exposure(Config(**{server: kind(origins=origins)}))
        assert "auth.hmac_secret" in caught.value.hint
    check_exposure(Config(**{server: kind(origins=("https://app.example.com",))}))
    check_exposure(Config(**{server: kind(origins=("*",))}, auth=Auth(hmac_secret=SECRET)))
