"""The stack's own token: random, in its data folder, for whoever may read that. It allows everything.

So our own commands need no settings, and a program or page that cannot read the folder cannot change the
stack.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from pathlib import Path

from distributary.config.private_files import read_secret, secret_file
from distributary.errors import SecretFileError

log = logging.getLogger(__name__)

FILE = "token"
_PREFIX = "ds_"


class StackToken:
    """The token of one data folder; there is none until `create_stack_token` was called for it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._known = ""

    def read(self) -> str:
        """Give the token; '' where there is none. Raises SecretFileError for a file that others can read."""
        if not self._known:
            self._known = read_secret(self._file) or ""
        return self._known

    def is_it(self, token: str) -> bool:
        """Say whether this is the token; where its file cannot be trusted, none is."""
        if not token.startswith(_PREFIX):  # not worth a look at the file
            return False
        try:
            known = self.read()
        except SecretFileError as error:
            log.error("the stack's token does not count: %s", error)
            return False
        return bool(known) and hmac.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass"))


def create_stack_token(folder: Path) -> str:
    """Give the token of a data folder, made now if it has none; raises SecretFileError."""
    return secret_file(folder / FILE, lambda: f"{_PREFIX}{secrets.token_urlsafe(32)}")


def ensure_token(folder: Path) -> None:
    """Have a token for administrative calls; a stack has one already, a server by itself may not.

    Where none can be kept, that is said in the log: then only those of ``[auth]`` count.
    """
    try:
        create_stack_token(folder)
    except SecretFileError as error:
        log.warning("there is no token for administrative calls but those of [auth]: %s", error)
