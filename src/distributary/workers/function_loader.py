"""Finds the function that ``module:function`` names."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from distributary.config.problems import nearest
from distributary.errors import BadFunction

Function = Callable[..., Any]


def load_function(text: str) -> Function:
    """Import a function of one record; raises BadFunction. Modules are looked for in ``sys.path``."""
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise BadFunction(f"{text!r} is not module:function", hint="As in: billing.orders:charge")
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise BadFunction(
                f"there is no module {error.name!r}",
                hint="Start it in the folder that holds the module, or set PYTHONPATH",
            ) from None
        raise BadFunction(f"the module {module!r} needs {error.name!r}, which is not installed") from None
    except Exception as error:  # whatever a module does when it is imported
        raise BadFunction(f"the module {module!r} cannot be imported: {_told(error)}") from None
    found = getattr(home, name, None)
    if found is None:
        near = nearest(name, [each for each in dir(home) if callable(getattr(home, each))])
        hint = f"Did you mean {module}:{near}?" if near else f"See {getattr(home, '__file__', module)}"
        raise BadFunction(f"the module {module!r} has no {name!r}", hint=hint)
    if not callable(found):
        raise BadFunction(f"{text} is a {type(found).__name__}, not a function")
    _check_arguments(text, found)
    return found  # type: ignore[no-any-return]


def _check_arguments(text: str, found: Function) -> None:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # a built-in may not say
        return
    try:
        signature.bind(object())
    except TypeError:
        raise BadFunction(
            f"{text}{signature} does not take one argument", hint="It is called with the record alone"
        ) from None


def look_here() -> None:
    """Let modules of the current folder be found, as ``python -m`` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
