"""The environment of a stack's processes: listed variables of that of `up`, and the settings it has chosen.

Anyone who may define a view can run Spark's functions, and so read the environment of the reducers. And a
server cannot leak what it does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from distributary.config import Config
from distributary.config.setting_field import PREFIX
from distributary.stack.embedded_servers import component_login
from distributary.stack.ports import listening_ports

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
"""Credentials of the commands of the user who starts the stack: no component calls another as that user."""
_AUTH = (f"{PREFIX}AUTH_*",)
"""Tokens can be signed with what is in these; the reducers check none."""

REDUCERS = "reducers"


def server_environment(env: Mapping[str, str]) -> dict[str, str]:
    """For the embedded Kafka and store, which use no setting of Distributary."""
    return _chosen(env, COMMON)


def service_environment(name: str, env: Mapping[str, str], further: Iterable[str] = ()) -> dict[str, str]:
    """For a Python component; ``further`` are patterns of names that the reducers get as well."""
    if name == REDUCERS:
        return _chosen(env, (*COMMON, f"{PREFIX}*", *SPARK, *further), (*_CALLERS, *_AUTH))
    return _chosen(env, (*COMMON, f"{PREFIX}*"), _CALLERS)


def chosen_settings(config: Config, component: str, *, secure: bool) -> dict[str, str]:
    """The settings that `up` may have chosen itself, as variables for a component.

    ``secure``: the embedded Kafka requires logins.
    """
    chosen = {
        "data_dir": str(config.data_dir),
        "kafka.bootstrap_servers": config.kafka.bootstrap_servers,
        "store.url": config.store.url,
        # A comma would end an address.
        "store.shards": ",".join(one.replace(",", "%2C") for one in config.store.shards),
        **{f"{one.section}.{one.field}": str(one.port) for one in listening_ports(config)},
    }
    if secure:
        login = component_login(config.data_dir, component, tls=bool(config.kafka.tls_certificate))
        chosen["kafka.properties"] = json.dumps({**config.kafka.properties, **login})
    if config.publisher.static_dir:
        chosen["publisher.static_dir"] = config.publisher.static_dir  # the demo serves its page with it
    if config.path is not None:
        chosen["config"] = str(Path(config.path).absolute())
    return {PREFIX + key.replace(".", "_").upper(): value for key, value in chosen.items()}


def _chosen(env: Mapping[str, str], allowed: Iterable[str], never: Iterable[str] = ()) -> dict[str, str]:
    allowed, never = tuple(allowed), tuple(never)
    return {
        name: value for name, value in env.items() if _matches(name, allowed) and not _matches(name, never)
    }


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
