"""What the user wrote in ``distributary.toml``, in the environment and on the command line, checked."""

from distributary.config.aggregates import parse_aggregate
from distributary.config.loader import EXAMPLE, FILE, Config, Fragment, load, parse_views
from distributary.config.sections import Auth, Kafka, Limits, Schemas, Spark, Store
from distributary.config.server_sections import Control, Gateway, Publisher, Socketio
from distributary.config.setting_field import Origin
from distributary.config.settings_table import Effective
from distributary.config.units import format_duration, format_size, parse_duration, parse_size, parse_start
from distributary.errors import ConfigError, Problem

__all__ = [
    "EXAMPLE",
    "FILE",
    "Auth",
    "Config",
    "ConfigError",
    "Control",
    "Effective",
    "Fragment",
    "Gateway",
    "Kafka",
    "Limits",
    "Origin",
    "Problem",
    "Publisher",
    "Schemas",
    "Socketio",
    "Spark",
    "Store",
    "format_duration",
    "format_size",
    "load",
    "parse_aggregate",
    "parse_duration",
    "parse_size",
    "parse_start",
    "parse_views",
]
