"""Rows in a reducer: fields whose values stay JSON text, so that numbers keep their digits."""

from __future__ import annotations

import msgspec

Fields = dict[str, msgspec.Raw]

_decode = msgspec.json.Decoder(Fields).decode
_encode = msgspec.json.Encoder().encode
_name = msgspec.json.Encoder().encode


class Unreadable(Exception):
    """A value cannot be read in its feed's format; the message has the reason."""


def read_object(value: bytes) -> Fields:
    """Read a JSON object one level deep; raises Unreadable.

    Line breaks outside strings are removed: a row is one line everywhere after this.
    """
    try:
        if not value.isascii():
            value.decode()
        if b"\n" in value or b"\r" in value:
            value = msgspec.json.format(value, indent=-1)
        return _decode(value)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start + 1}") from None
    except msgspec.ValidationError:
        raise Unreadable("not a JSON object") from None
    except msgspec.DecodeError as error:
        raise Unreadable(f"not JSON: {error}") from None
    except RecursionError:
        raise Unreadable("not JSON: nested too deeply") from None


def write_object(row: Fields) -> bytes:
    """Write a row as one line of JSON."""
    return _encode(row)


def describe_change(old: Fields, new: Fields) -> bytes:
    """Write what changed between two rows, as members of a JSON object; empty when nothing did.

    Values are compared as text: 1.50 and 1.5 differ.
    """
    changed = {k: v for k, v in new.items() if (o := old.get(k)) is not v and o != v}
    gone = [k for k in old if k not in new]
    if not changed and not gone:
        return b""
    text = b'"changed":' + _encode(changed)
    return text + b',"gone":' + _name(gone) if gone else text
