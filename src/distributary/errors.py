"""Every error that Distributary raises on purpose.

A user sees one line made of the message (what went wrong and where) and the hint (what to do), never a
stack trace. A program tells errors apart by class or by ``code``, and reads ``retry`` to know whether the
same call may succeed later with nothing changed.

The tree::

    DistributaryError
    ├── UsageError               the command line asks for something that there is not
    │   └── CommandMissing       the command, or a package it needs, is not installed
    ├── ConfigError              the configuration cannot be used; one problem a line
    │   └── ConfigMissing        there is no configuration file where it was looked for
    ├── SecretFileError          a file with a secret is missing, empty, or can be read by others
    ├── Superseded               a newer driver has taken a view over
    ├── StoreUnsuitable          the store would lose rows by its own settings
    ├── BadView                  a view's SQL or rule cannot be used; Spark's own words where it said why
    ├── SchemasUnavailable       the schema registry does not answer, or refuses
    ├── BadQuery                 a filter, a list of keys or a channel name cannot be read
    ├── AccessError              whoever asks may not do it
    │   ├── CredentialsMissing   neither a token nor an API key was given
    │   ├── TokenRefused         the token or API key does not count; `reason` names the check it failed
    │   │   └── TokenExpired     the token's time is over; another one will do
    │   ├── KeysUnavailable      the keys that tokens are checked with cannot be fetched now
    │   └── Forbidden            the token counts, but does not allow this
    ├── RequestError             the control API cannot do what was asked
    │   ├── BadRequest           the body or a parameter is not what the call takes
    │   ├── BadDefinition        a view's definition cannot be used
    │   ├── NotThere             no such address, or not by this method
    │   ├── ViewNotFound         no view of that name
    │   ├── ViewBuilding         the view has no rows to serve yet
    │   ├── SubscriptionNotFound no subscription of that id, or it lapsed
    │   ├── AlreadyBegun         a subscription begins once
    │   ├── OriginRefused        a page of another site may not use the API
    │   ├── HostRefused          a server on a loopback address was called by another name
    │   ├── FormatNotOffered     rows do not come in any format that the request accepts
    │   ├── PageGone             the rest of a result is not kept any more
    │   ├── ResultTooLarge       more rows than may be held for one request
    │   ├── ViewBusy             the view changes faster than its rows can be read
    │   ├── LimitExceeded        a user, an address or all have as much as they may
    │   └── TooManyRequests      a user does more in a second than it may
    ├── GatewayError             the gateway cannot do what was asked; `number` is what its clients know it by
    ├── CheckFailed              a schema or a record cannot be checked: what checks it does not survive it
    │   └── CheckTooLong         the check was ended because it took too long
    ├── ChecksBusy               too many slow checks wait already
    ├── PortTaken                a part cannot listen on its address
    ├── SubscribeError           the publisher refused a subscriber for good
    ├── StackNotRunning          nothing answers where the stack should be
    ├── NotReady                 something keeps views from being served; the alarms say what
    ├── KafkaUnavailable         the brokers do not answer
    ├── TopicError               a topic is missing, or cannot be created or read
    │   └── TopicMissing         there is no topic of that name
    ├── KafkaClientError         a producer or consumer cannot go on with what it was asked
    │   ├── RecordRefused        Kafka does not take a record as it is
    │   ├── KafkaRefused         Kafka answered, and does not do what was asked
    │   ├── GroupRefused         a consumer group refuses a consumer or its commit
    │   ├── OffsetMissing        there is no record at the position, and nothing says where else to begin
    │   ├── TransactionFailed    a transaction was given up; nothing of it counts
    │   └── ProducerFenced       another producer has taken over the transactional id
    ├── GroupError               a consumer group cannot be read or changed
    │   ├── GroupMissing         there is no group of that name
    │   └── GroupBusy            the group has live members
    ├── WorkerError              a worker cannot be run, or asked for something
    │   ├── BadFunction          its function cannot be found or called
    │   ├── WorkerMissing        none of that name runs here
    │   ├── WorkerBusy           one of that name runs already
    │   └── WorkerFailed         its processes end again and again, or cannot begin
    ├── NameRefused              a topic's or a group's name does not follow the convention
    ├── StoreUnavailable         the store server does not answer
    ├── SparkUnavailable         Spark does not start, or its master does not answer
    ├── StackError               `up` cannot run the stack
    │   ├── DataFolderError      the data folder cannot be used as it is
    │   │   ├── DataFolderBusy   another `up` runs in it
    │   │   └── DataFolderNewer  a later version of Distributary made it
    │   └── PartFailed           a part does not start, however often it is tried
    └── SetupError               the machine lacks something the stack needs
        ├── JavaMissing          no Java 17 or newer
        ├── JarFetchFailed       the jars did not arrive, or the cache cannot be written
        ├── JarMismatch          a jar arrived whose sha256 is not the locked one
        ├── StoreServerMissing   no usable valkey-server or redis-server
        └── AdvisoriesUnavailable the service that knows advisories does not answer, or not all of it

A new error takes the two arguments of the base and no others (so that it survives pickling between Spark
processes), sets ``code`` and ``retry``, and is drawn above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from distributary.config.problems import Problem


class DistributaryError(Exception):
    """The base of the tree.

    ``message`` says what went wrong and where, with no full stop at its end; ``hint`` says what to do.
    ``code`` is a stable kebab-case name. ``retry`` is true when trying again unchanged may succeed.
    """

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


# --- cli: what the user typed ---------------------------------------------------------------------------


class UsageError(DistributaryError):
    """The command line asks for something that there is not."""

    code = "usage"


class CommandMissing(UsageError):
    """The command's module, or a package that it needs, is not installed."""

    code = "command-missing"


# --- config: what the user wrote ------------------------------------------------------------------------


class ConfigError(DistributaryError):
    """The configuration cannot be used.

    The message has one line for each mistake; ``problems`` holds the same as values (file, line, key,
    nearest valid name), in the same order.
    """

    code = "config"
    problems: tuple[Problem, ...] = ()


class ConfigMissing(ConfigError):
    """There is no configuration file where it was looked for."""

    code = "config-missing"


class SecretFileError(DistributaryError):
    """A file that holds a secret cannot be read or made, is empty, or can be read by others."""

    code = "secret-file"


# --- setup: what the machine needs before anything runs -------------------------------------------------


class SetupError(DistributaryError):
    """The machine lacks something the stack needs."""

    code = "setup-failed"


class JavaMissing(SetupError):
    """No Java 17 or newer was found, nor could one be installed."""

    code = "java-missing"


class JarFetchFailed(SetupError):
    """The jars of a set could not be fetched, or the cache could not be written."""

    code = "jar-fetch-failed"
    retry = True


class JarMismatch(SetupError):
    """A fetched jar does not have the locked sha256; it was refused and not kept."""

    code = "jar-mismatch"


class StoreServerMissing(SetupError):
    """No usable valkey-server or redis-server was found."""

    code = "store-server-missing"


class AdvisoriesUnavailable(SetupError):
    """The service that knows the advisories of packages could not be asked, or not for all."""

    code = "advisories-unavailable"
    retry = True


# --- model: what a subscriber asks for ------------------------------------------------------------------


class Superseded(DistributaryError):
    """A newer driver has taken a view over; this one must end."""

    code = "superseded"


class StoreUnsuitable(DistributaryError):
    """The store would lose rows by its own settings."""

    code = "store-unsuitable"


class BadView(DistributaryError):
    """A view's SQL or rule cannot be used."""

    code = "bad-view"


class SchemasUnavailable(DistributaryError):
    """The schema registry that a feed's schemas are in does not answer, or refuses."""

    code = "schemas-unavailable"
    retry = True


class BadQuery(DistributaryError):
    """A filter, a list of keys or a channel name cannot be read."""

    code = "bad-query"


# --- auth: who may do what ----------------------------------------------------------------------------


class AccessError(DistributaryError):
    """Whoever asks may not do it. No message of this branch repeats a token, a key or a secret."""

    code = "access"


class CredentialsMissing(AccessError):
    """Neither a token nor an API key was given, and one is needed."""

    code = "credentials-missing"


class TokenRefused(AccessError):
    """The token or API key does not count.

    ``reason`` is a stable word for the check that it failed (`distributary.auth.jwt_checks.REASONS`).
    """

    code = "token-refused"
    reason: str = "malformed"


class TokenExpired(TokenRefused):
    """The token's time is over; another one will do."""

    code = "token-expired"
    reason = "expired"


class KeysUnavailable(AccessError):
    """The keys that tokens are checked with cannot be fetched now."""

    code = "keys-unavailable"
    retry = True


class Forbidden(AccessError):
    """The token or key counts, but does not allow this."""

    code = "forbidden"


# --- control: what the REST API answers -----------------------------------------------------------------


class RequestError(DistributaryError):
    """The control API cannot do what was asked."""

    code = "request"


class BadRequest(RequestError):
    """The body or a parameter of a request is not what the call takes."""

    code = "bad-request"


class BadDefinition(RequestError):
    """A view's definition cannot be used."""

    code = "bad-definition"


class NotThere(RequestError):
    """The API has no such address, or not by this method."""

    code = "not-found"


class ViewNotFound(RequestError):
    """There is no view of that name."""

    code = "view-not-found"


class ViewBuilding(RequestError):
    """The view's first build has not caught up, so there are no rows to serve yet."""

    code = "view-building"
    retry = True


class SubscriptionNotFound(RequestError):
    """There is no subscription of that id, or its time is over."""

    code = "subscription-not-found"


class AlreadyBegun(RequestError):
    """A subscription begins once."""

    code = "already-begun"


class OriginRefused(RequestError):
    """A browser page of a site that is not allowed called the API."""

    code = "origin-refused"


class HostRefused(RequestError):
    """A server on this machine's own address was called by a name that is not its own."""

    code = "host-refused"


class FormatNotOffered(RequestError):
    """Rows do not come in any format that the request's Accept header names."""

    code = "format-not-offered"


class PageGone(RequestError):
    """The further pages of a result are not kept any more."""

    code = "page-gone"


class ResultTooLarge(RequestError):
    """A query asks for more rows than may be held for one request."""

    code = "result-too-large"


class ViewBusy(RequestError):
    """A view changes, or is replaced, faster than its rows can be read."""

    code = "view-busy"
    retry = True


class LimitExceeded(RequestError):
    """A user, an address, or all together have as much of something as they may."""

    code = "limit-exceeded"


class TooManyRequests(RequestError):
    """A user makes more requests, or sends more bytes, in a second than it may.

    ``after`` is in how many seconds it may try again.
    """

    code = "too-many-requests"
    retry = True
    after: float = 1.0


# --- gateway: what clients of Kafka over HTTP meet ------------------------------------------------------


class GatewayError(DistributaryError):
    """The gateway cannot do what was asked.

    ``number`` is the ``error_code`` of the reply, by which clients of a REST proxy or a schema registry tell
    errors apart; its first three digits are the HTTP status.
    """

    code = "gateway"
    number: int = 500


# --- publish: what stops a publisher --------------------------------------------------------------------


class CheckFailed(DistributaryError):
    """A schema or a record cannot be checked: the process that did so ended, or ran out of memory."""

    code = "check-failed"


class CheckTooLong(CheckFailed):
    """A check was ended because it took too long."""

    code = "check-too-long"


class ChecksBusy(DistributaryError):
    """Too many checks that may be slow wait already."""

    code = "checks-busy"
    retry = True


class PortTaken(DistributaryError):
    """A part cannot listen on its address, most often because another process does."""

    code = "port-taken"


# --- subscribe and cli: what callers of a running stack meet --------------------------------------------


class SubscribeError(DistributaryError):
    """The publisher refused a subscriber for good."""

    code = "subscribe-refused"


class StackNotRunning(DistributaryError):
    """Nothing answers where the stack should be."""

    code = "stack-not-running"
    retry = True


# --- kafka and store: what the stages talk to -----------------------------------------------------------


class KafkaUnavailable(DistributaryError):
    """The brokers do not answer."""

    code = "kafka-unavailable"
    retry = True


class TopicError(DistributaryError):
    """A topic is missing, or cannot be created or read."""

    code = "topic"


class TopicMissing(TopicError):
    """There is no topic of that name."""

    code = "topic-missing"


class KafkaClientError(DistributaryError):
    """A producer, a consumer or an operator's command cannot go on with what it was asked."""

    code = "kafka-client"


class RecordRefused(KafkaClientError):
    """Kafka does not take a record as it is; the message names the record."""

    code = "record-refused"


class KafkaRefused(KafkaClientError):
    """Kafka answered, and does not let this client in, or does not do what was asked."""

    code = "kafka-refused"


class GroupRefused(KafkaClientError):
    """A consumer group refuses a consumer or its commit."""

    code = "group-refused"


class OffsetMissing(KafkaClientError):
    """There is no record at the position to read from, and nothing says where else to begin."""

    code = "offset-missing"


class TransactionFailed(KafkaClientError):
    """A transaction was given up; nothing of it counts."""

    code = "transaction-failed"
    retry = True


class ProducerFenced(KafkaClientError):
    """Another producer has taken over the transactional id; this one can only be closed."""

    code = "producer-fenced"


class GroupError(DistributaryError):
    """A consumer group cannot be read or changed."""

    code = "group"


class GroupMissing(GroupError):
    """There is no group of that name."""

    code = "group-missing"


class GroupBusy(GroupError):
    """The group has live members, so its offsets or its name are not free."""

    code = "group-busy"
    retry = True


class WorkerError(DistributaryError):
    """A worker cannot be run, or asked for something."""

    code = "worker"


class BadFunction(WorkerError):
    """The function of a worker cannot be found or called."""

    code = "bad-function"


class WorkerMissing(WorkerError):
    """No worker of that name runs here."""

    code = "worker-missing"


class WorkerBusy(WorkerError):
    """A worker of that name runs already."""

    code = "worker-busy"


class WorkerFailed(WorkerError):
    """The processes of a worker end again and again, or cannot begin."""

    code = "worker-failed"


class NameRefused(DistributaryError):
    """A topic's or a group's name does not follow the configured convention."""

    code = "name-refused"


class NotReady(DistributaryError):
    """Something keeps views from being served."""

    code = "not-ready"
    retry = True


class StoreUnavailable(DistributaryError):
    """The store server does not answer."""

    code = "store-unavailable"
    retry = True


class SparkUnavailable(DistributaryError):
    """Spark does not start, or its master does not answer."""

    code = "spark-unavailable"
    retry = True


# --- operate: running the stack -------------------------------------------------------------------------


class StackError(DistributaryError):
    """`up` cannot run the stack."""

    code = "stack"


class DataFolderError(StackError):
    """The data folder cannot be used as it is."""

    code = "data-folder"


class DataFolderBusy(DataFolderError):
    """Another `up` runs in the data folder."""

    code = "data-folder-busy"


class DataFolderNewer(DataFolderError):
    """A later version of Distributary made the data folder."""

    code = "data-folder-newer"


class PartFailed(StackError):
    """A part does not start, however often it is tried."""

    code = "part-failed"
