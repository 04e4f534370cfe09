"""What the processes of a stack get of the environment that `up` was started in: what is listed, no more.

Whoever may define a view can run Spark's functions, and so read the environment of the reducers. And what a
server does not need cannot be got from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from distributary.config.setting_field import PREFIX

COMMON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL"),
    *("LANG", "LC_*", "TZ"),
    *("TMPDIR", "TEMP", "TMP", "XDG_*"),
    *("JAVA_HOME", "LD_*", "PYTHON*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "*_proxy", "*_PROXY"),
    "KRB5*",
)
"""Patterns of the names that every process gets."""

SPARK = ("SPARK_*", "PYSPARK_*", "HADOOP_CONF_DIR", "HADOOP_HOME", "YARN_CONF_DIR")
"""Those by which Spark finds itself and a cluster, for the reducers."""

_CALLERS = (f"{PREFIX}TOKEN", f"{PREFIX}API_KEY")
"""What the commands of whoever starts the stack show of themselves: no part calls another as that user."""
_PERMISSION = (f"{PREFIX}AUTH_*",)
"""With what is in there, tokens can be signed; the reducers check none."""

REDUCERS = "reducers"


def of_server(env: Mapping[str, str]) -> dict[str, str]:
    """For the embedded Kafka and store, which know nothing of us."""
    return _chosen(env, COMMON)


def of_service(name: str, env: Mapping[str, str], further: Iterable[str] = ()) -> dict[str, str]:
    """For a Python part; ``further`` are patterns of names that the reducers get as well."""
    if name == REDUCERS:
        return _chosen(env, (*COMMON, f"{PREFIX}*", *SPARK, *further), (*_CALLERS, *_PERMISSION))
    return _chosen(env, (*COMMON, f"{PREFIX}*"), _CALLERS)


def _chosen(env: Mapping[str, str], allowed: Iterable[str], never: Iterable[str] = ()) -> dict[str, str]:
    allowed, never = tuple(allowed), tuple(never)
    return {
        name: value for name, value in env.items() if _matches(name, allowed) and not _matches(name, never)
    }


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
