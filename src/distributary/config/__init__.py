"""What the user wrote in ``distributary.toml``, in the environment and on the command line, checked."""

from distributary.config.aggregates import parse_aggregate
from distributary.config.auth_section import Auth
from distributary.config.document_reader import Origin
from distributary.config.effective import Effective
from distributary.config.gateway_section import Gateway
from distributary.config.loader import EXAMPLE, FILE, Config, Fragment, load, parse_views
from distributary.config.sections import Control, Kafka, Publisher, Spark, Store
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
    "Origin",
    "Problem",
    "Publisher",
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
