"""Every error that Distributary raises on purpose.

A user sees the message (what went wrong and where) and the hint (what to do), never a stack trace. A program
distinguishes errors by class or by ``code``, and reads ``retry`` to know whether the same call may succeed
later.

``docs/reference/errors.md`` lists the classes with their codes. A new error takes the two arguments of the
base class and no others (so that it survives pickling between Spark processes), and sets ``code`` and
``retry``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class DistributaryError(Exception):
    """The base class of all errors.

    ``message`` describes what went wrong and where, without a full stop at the end; ``hint`` describes what
    to do. ``code`` is a stable kebab-case name. ``retry`` is true when an unchanged retry may succeed.
    """

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


# --- command line ---------------------------------------------------------------------------------------


class UsageError(DistributaryError):
    """The command line is invalid."""

    code = "usage"


class CommandMissing(UsageError):
    """The command, or a package that it needs, is not installed."""

    code = "command-missing"


# --- configuration --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a configuration: its location, what is wrong, and the closest valid name."""

    message: str
    key: str = ""
    file: str = ""
    line: int | None = None
    nearest: str = ""

    def __str__(self) -> str:
        """Format it as compilers do: ``file:line: key: message (did you mean "x"?)``."""
        location = f"{self.file}:{self.line}" if self.line is not None else self.file
        text = f'{self.message} (did you mean "{self.nearest}"?)' if self.nearest else self.message
        return ": ".join(part for part in (location, self.key, text) if part)


class ConfigError(DistributaryError):
    """The configuration is invalid.

    The message has one line per error. ``problems`` holds the same as values, in the same order.
    """

    code = "config"
    problems: tuple[Problem, ...] = ()


class ConfigMissing(ConfigError):
    """The configuration file was not found."""

    code = "config-missing"


class SecretFileError(DistributaryError):
    """A file that holds a secret cannot be read or created, is empty, or is readable by other users."""

    code = "secret-file"


# --- setup of the machine -------------------------------------------------------------------------------


class SetupError(DistributaryError):
    """Something that the stack needs is missing on this machine."""

    code = "setup-failed"


class JavaMissing(SetupError):
    """Java 17 or newer was not found and could not be installed."""

    code = "java-missing"


class JarFetchFailed(SetupError):
    """The jars could not be downloaded, or the cache could not be written."""

    code = "jar-fetch-failed"
    retry = True


class JarMismatch(SetupError):
    """A downloaded jar does not have the locked sha256; it was rejected."""

    code = "jar-mismatch"


class StoreServerMissing(SetupError):
    """No usable valkey-server or redis-server was found."""

    code = "store-server-missing"


class AdvisoriesUnavailable(SetupError):
    """The service that lists advisories did not respond, or not for all packages."""

    code = "advisories-unavailable"
    retry = True


# --- views and queries ----------------------------------------------------------------------------------


class Superseded(DistributaryError):
    """A newer driver has taken over the view; this one must stop."""

    code = "superseded"


class StoreUnsuitable(DistributaryError):
    """The settings of the store server would make it lose rows."""

    code = "store-unsuitable"


class BadView(DistributaryError):
    """The SQL or the reduce rule of a view is invalid."""

    code = "bad-view"


class SchemasUnavailable(DistributaryError):
    """The schema registry does not respond, or refuses the request."""

    code = "schemas-unavailable"
    retry = True


class BadQuery(DistributaryError):
    """A filter, a list of keys or a channel name is invalid."""

    code = "bad-query"


# --- authorization --------------------------------------------------------------------------------------


class AccessError(DistributaryError):
    """The caller is not authorized. No message of this branch repeats a token, a key or a secret."""

    code = "access"


class CredentialsMissing(AccessError):
    """A token or an API key is required, and neither was given."""

    code = "credentials-missing"


class TokenRefused(AccessError):
    """The token or API key is not valid.

    ``reason`` is a stable word for the check that failed (`distributary.auth.jwt_checks.REASONS`).
    """

    code = "token-refused"
    reason: str = "malformed"


class TokenExpired(TokenRefused):
    """The token has expired; a new one is needed."""

    code = "token-expired"
    reason = "expired"


class KeysUnavailable(AccessError):
    """The keys that verify tokens cannot be fetched."""

    code = "keys-unavailable"
    retry = True


class Forbidden(AccessError):
    """The token or key is valid, but does not allow this."""

    code = "forbidden"


# --- control API ----------------------------------------------------------------------------------------


class RequestError(DistributaryError):
    """The control API cannot handle the request."""

    code = "request"


class BadRequest(RequestError):
    """The body or a parameter of the request is invalid."""

    code = "bad-request"


class BadDefinition(RequestError):
    """The definition of a view is invalid."""

    code = "bad-definition"


class NotFound(RequestError):
    """The API has no such path, or the path does not support this method."""

    code = "not-found"


class ViewNotFound(RequestError):
    """The view does not exist."""

    code = "view-not-found"


class ViewBuilding(RequestError):
    """The first build of the view has not caught up yet, so there are no rows to serve."""

    code = "view-building"
    retry = True


class SubscriptionNotFound(RequestError):
    """The subscription does not exist, or has lapsed."""

    code = "subscription-not-found"


class AlreadyBegun(RequestError):
    """The subscription has already begun."""

    code = "already-begun"


class OriginRefused(RequestError):
    """A web page from an origin that is not allowed called the API."""

    code = "origin-refused"


class HostRefused(RequestError):
    """A server on a loopback address was called by a host name that is not its own."""

    code = "host-refused"


class FormatNotOffered(RequestError):
    """Rows are not available in any format of the request's Accept header."""

    code = "format-not-offered"


class PageGone(RequestError):
    """The remaining pages of the result are no longer cached."""

    code = "page-gone"


class ResultTooLarge(RequestError):
    """The query matches more rows than one request may return."""

    code = "result-too-large"


class ViewBusy(RequestError):
    """The view changes, or is replaced, faster than its rows can be read."""

    code = "view-busy"
    retry = True


class LimitExceeded(RequestError):
    """A user, an address, or all users together have reached a limit."""

    code = "limit-exceeded"


class TooManyRequests(RequestError):
    """A user sends more requests or bytes per second than allowed.

    ``after`` is the number of seconds to wait before a retry.
    """

    code = "too-many-requests"
    retry = True
    after: float = 1.0


# --- gateway --------------------------------------------------------------------------------------------


class GatewayError(DistributaryError):
    """The gateway cannot handle the request.

    ``error_code`` is that of the response, by which clients of a REST proxy or a schema registry
    distinguish errors; its first three digits are the HTTP status.
    """

    code = "gateway"
    error_code: int = 500


# --- checks in processes of their own, and servers ------------------------------------------------------


class CheckFailed(DistributaryError):
    """A schema or a record cannot be checked: the process that did so ended, or ran out of memory."""

    code = "check-failed"


class CheckTooLong(CheckFailed):
    """A check was ended because it took too long."""

    code = "check-too-long"


class ChecksBusy(DistributaryError):
    """Too many slow checks are already waiting."""

    code = "checks-busy"
    retry = True


class PortTaken(DistributaryError):
    """A process cannot listen on its address, usually because another one does."""

    code = "port-taken"


# --- callers of a running stack -------------------------------------------------------------------------


class SubscribeError(DistributaryError):
    """The publisher rejected the subscriber permanently."""

    code = "subscribe-refused"


class StackNotRunning(DistributaryError):
    """The stack does not respond at its address."""

    code = "stack-not-running"
    retry = True


# --- Kafka, the store and Spark -------------------------------------------------------------------------


class KafkaUnavailable(DistributaryError):
    """The Kafka brokers do not respond."""

    code = "kafka-unavailable"
    retry = True


class TopicError(DistributaryError):
    """A topic is missing, or cannot be created or read."""

    code = "topic"


class TopicMissing(TopicError):
    """The topic does not exist."""

    code = "topic-missing"


class KafkaClientError(DistributaryError):
    """A producer, a consumer or an admin command failed."""

    code = "kafka-client"


class RecordRefused(KafkaClientError):
    """Kafka rejects a record as it is; the message names the record."""

    code = "record-refused"


class KafkaRefused(KafkaClientError):
    """Kafka responded, and rejects the client or the request."""

    code = "kafka-refused"


class GroupRefused(KafkaClientError):
    """A consumer group rejects a consumer or its commit."""

    code = "group-refused"


class OffsetMissing(KafkaClientError):
    """There is no record at the offset to read from, and no reset policy is set."""

    code = "offset-missing"


class TransactionFailed(KafkaClientError):
    """A transaction was aborted; none of its records are committed."""

    code = "transaction-failed"
    retry = True


class ProducerFenced(KafkaClientError):
    """Another producer has taken over the transactional id; this one can only be closed."""

    code = "producer-fenced"


class GroupMissing(DistributaryError):
    """The consumer group does not exist."""

    code = "group-missing"


class GroupBusy(DistributaryError):
    """The group has live members, so its offsets cannot change and its name is in use."""

    code = "group-busy"
    retry = True


class BadFunction(DistributaryError):
    """The function of a worker cannot be found or called."""

    code = "bad-function"


class WorkerMissing(DistributaryError):
    """No worker of that name runs here."""

    code = "worker-missing"


class WorkerBusy(DistributaryError):
    """A worker of that name is already running."""

    code = "worker-busy"


class WorkerFailed(DistributaryError):
    """The processes of a worker fail repeatedly, or cannot start."""

    code = "worker-failed"


class NameRefused(DistributaryError):
    """The name of a topic or a group does not follow the configured convention."""

    code = "name-refused"


class NotReady(DistributaryError):
    """Views cannot be served yet; the alarms say why."""

    code = "not-ready"
    retry = True


class StoreUnavailable(DistributaryError):
    """The store server does not respond."""

    code = "store-unavailable"
    retry = True


class SparkUnavailable(DistributaryError):
    """Spark does not start, or its master does not respond."""

    code = "spark-unavailable"
    retry = True


# --- running the stack ----------------------------------------------------------------------------------


class StackError(DistributaryError):
    """`up` cannot run the stack."""

    code = "stack"


class DataFolderError(StackError):
    """The data folder cannot be used."""

    code = "data-folder"


class DataFolderBusy(DataFolderError):
    """Another `up` is using the data folder."""

    code = "data-folder-busy"


class DataFolderNewer(DataFolderError):
    """The data folder was created by a later version of Distributary."""

    code = "data-folder-newer"


class ComponentFailed(StackError):
    """A component does not start, even after several attempts."""

    code = "part-failed"
