"""Every field of the protocol's commands is used, or changes nothing, or is refused; in both formats."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.centrifuge_protocol import PROTOCOL
from tests.support.wire_formats import CODECS, PROTO, read

from distributary.publisher.codec import client_commands, protobuf_codec, protobuf_encoding
from distributary.publisher.codec.client_commands import UNSERVED, Command
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.protobuf_encoding import Schema
from distributary.publisher.websocket.session import Session
from distributary.publisher.websocket.session_actions import Send

HARMLESS: dict[str, dict[str, str]] = {
    "connect": {
        "name": "the name of the SDK: for its operator",
        "version": "the version of the client's own application: for its operator",
        "headers": "for proxies that authenticate; here who shows no token or key is told so",
        "flag": "offers of the client: none is taken up, and the reply says of none that it is",
    },
    "subscribe": {
        "positioned": "asks for positions: there always are some",
        "recoverable": "asks for recovery: it always is possible",
        "delta": "offers to take differences: a reply without it means whole data",
    },
    "presence": {"channel": "the command is refused, whatever it says"},
    "presence_stats": {"channel": "the command is refused, whatever it says"},
    "send": {"data": "nobody takes messages without an answer; documented"},
}
"""Fields that are passed over, each with the reason why that does not deceive the client."""


def struct_of(command: str) -> Any:
    """The type that a command's fields are read into; None where they are not read."""
    (kind,) = [field.type for field in msgspec.structs.fields(Command) if field.name == command]
    return next((one for one in getattr(kind, "__args__", ()) if one is not type(None)), None)


def fields_of(command: str) -> set[str]:
    made = struct_of(command)
    return {field.encode_name for field in msgspec.structs.fields(made)} if made is not None else set()


def schema_of(command: str) -> Schema:
    (found,) = [kind for name, kind in protobuf_codec.COMMAND.values() if name == command]
    assert not isinstance(found, (tuple, type))
    return found


def test_every_command_is_known() -> None:
    read = {field.name for field in msgspec.structs.fields(Command)}
    assert read == {name for name, _ in protobuf_codec.COMMAND.values()} == {"id", *PROTOCOL}


@pytest.mark.parametrize("command", PROTOCOL)
def test_every_field_is_used_or_harmless_or_refused(command: str) -> None:
    harmless = set(HARMLESS.get(command, {}))
    read = fields_of(command)
    assert read | harmless == set(PROTOCOL[command])
    assert not read & harmless
    assert set(UNSERVED.get(command, {})) <= read
    assert {name: number for number, (name, _) in schema_of(command).items()} == {
        name: number for name, number in PROTOCOL[command].items() if name in read
    }, "both formats read the same fields"


@pytest.mark.parametrize("command", PROTOCOL)
def test_python_sdk_has_no_other_fields(command: str) -> None:
    found = PROTO.Command.DESCRIPTOR.fields_by_name[command].message_type
    assert {field.name: field.number for field in found.fields}.items() <= PROTOCOL[command].items()


SET: dict[str, Any] = {
    "subs": {"odds": {"recover": True}},
    "tf": {"key": "sport", "cmp": "eq", "val": "football"},
    "cursor": "m7",
    "key": "m1",
    "track": [{"items": [{"key": "m1"}]}],
    "untrack": ["m1"],
    **dict.fromkeys(("join_leave", "asc", "removed"), True),
    **dict.fromkeys(("type", "phase", "limit"), 1),
}
SETTINGS = [(command, field) for command, fields in UNSERVED.items() for field in fields]


def written(wire: Codec, command: str, fields: dict[str, Any]) -> bytes:
    """One command, by hand: the Python SDK does not know all fields."""
    if wire is JSON:
        return msgspec.json.encode({"id": 5, command: fields})
    numbers = {name: number for number, (name, _) in protobuf_codec.COMMAND.items()}
    body = b""
    for name, value in fields.items():
        number = PROTOCOL[command][name]
        if isinstance(value, str):
            body += protobuf_encoding.text(number, value)
        elif isinstance(value, int):
            body += protobuf_encoding.number(number, value)
        else:
            body += protobuf_encoding.block(number, b"")  # a message is there, whatever is in it
    return protobuf_encoding.delimited(
        protobuf_encoding.number(1, 5) + protobuf_encoding.block(numbers[command], body)
    )


def answers(wire: Codec, command: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    session = Session("c1", version="1", ping=25, max_channels=3, codec=wire)
    if command != "connect":
        session.receive(written(wire, "connect", {}))
    actions = session.receive(written(wire, command, fields))
    return [one for action in actions if isinstance(action, Send) for one in read(wire, action.payload)]


@pytest.mark.parametrize("wire", CODECS, ids=lambda wire: wire.subprotocol)
@pytest.mark.parametrize(("command", "field"), SETTINGS)
def test_unsupported_field_is_refused(wire: Codec, command: str, field: str) -> None:
    base = {} if command == "connect" else {"channel": "odds"}
    (reply,) = answers(wire, command, base | {field: SET[field]})
    assert reply["id"] == 5
    assert reply["error"]["code"] == 108
    assert reply["error"]["message"] == f"not available: {UNSERVED[command][field]}"
    assert "temporary" not in reply["error"], "trying again would not help"


@pytest.mark.parametrize("command", UNSERVED)
def test_unset_unsupported_fields_are_accepted(command: str) -> None:
    made = struct_of(command)
    unset = {field: getattr(made(), field) for field in UNSERVED[command]}
    assert client_commands.unserved(Command(id=5, **{command: made(**unset)})) == ""
    message = msgspec.json.encode({"id": 5, command: unset})
    assert client_commands.decode(message) is not None


def test_empty_tags_filter_is_refused() -> None:
    (reply,) = answers(JSON, "subscribe", {"channel": "odds", "tf": {}})
    assert reply["error"]["code"] == 108
