"""Commands of Kafka's tools, in an order in which each one finds what the earlier ones have created."""

import json
import re
from dataclasses import dataclass
from typing import Final

from tests.interop.admin import tools
from tests.interop.admin.two_clusters import CONTROLLER_ID, FENCED_BROKER_ID, SILENT_BROKER_ID

SUBCOMMAND_FIRST: Final = frozenset({tools.CLUSTER})
"""Tools with the address after their subcommand."""


READ_ONLY: Final = frozenset(
    {"--list", "--describe", "--verify", "--generate", "describe", "cluster-id", "list-endpoints"}
)
"""First words of read-only commands, which are repeated until both outputs are the expected and equal."""


@dataclass(frozen=True)
class Command:
    """One call of a tool. A word that begins with { is passed as the path of a file with that content."""

    tool: str
    words: tuple[str, ...]
    wants: str  # expected in both outputs
    to_controller: bool = False
    code: int = 0

    @property
    def is_read_only(self) -> bool:
        """Whether the command may be repeated."""
        return not self.words or bool(READ_ONLY & set(self.words))

    def __str__(self) -> str:
        shown = " ".join(self.words)
        return f"{self.tool.rpartition('.')[2]} {'(controller) ' if self.to_controller else ''}{shown}"


def _of(tool: str, to_controller: bool, *lines: tuple[str, str] | tuple[str, str, int]) -> list[Command]:
    """Return the commands of one tool, one per line, with expected output and exit code."""
    return [
        Command(tool, tuple(_split(line[0])), line[1], to_controller, line[2] if len(line) == 3 else 0)
        for line in lines
    ]


def _split(line: str) -> list[str]:
    """Split a command at spaces; everything from the first { is one word."""
    line, brace, rest = line.partition("{")
    return line.split() + ([brace + rest] if brace else [])


def _moves(**replicas: list[int]) -> str:
    """Return a reassignment file: replicas by topic and partition, as in orders_0=[101]."""
    partitions = []
    for name, ids in replicas.items():
        topic, _, index = name.partition("_")
        partitions.append({"topic": topic, "partition": int(index), "replicas": ids})
    return json.dumps({"version": 1, "partitions": partitions})


TOPICS: Final = _of(
    tools.TOPICS,
    False,
    ("--create --topic orders --replica-assignment 101:102,102:101,101:102 --config retention.ms=7200000", "Created"),
    ("--create --topic payments --replica-assignment 101,102 --config cleanup.policy=compact,delete", "Created"),
    ("--describe --under-replicated-partitions", ""),
    ("--create --topic placed --partitions 4 --replication-factor 2", "Created"),
    ("--delete --topic placed", ""),
    ("--create --topic defaults", "Created"),
    ("--create --topic orders", "already exists", 1),
    ("--create --topic orders --if-not-exists", ""),
    ("--create --topic too-many --partitions 1 --replication-factor 9", "replication factor", 1),
    ("--create --topic no-partitions --partitions 0", "partitions", 1),
    ("--create --topic wrong-config --config retention.ms=soon", "Invalid value soon", 1),
    ("--create --topic unknown-config --config no.such.key=1", "Unknown topic config", 1),
    ("--create --topic unknown-broker --replica-assignment 101,999", "999", 1),
    ("--create --topic wrong/name", "wrong/name", 1),
    ("--create --topic ..", "Topic name is invalid", 1),
    ("--create --topic or.ders_x --replica-assignment 101", "Created topic or.ders_x"),
    ("--create --topic or_ders.x --partitions 1", "collides", 1),
    ("--list", "payments"),
    ("--describe --topic orders", "PartitionCount: 3"),
    ("--describe --topic unknown", "does not exist", 1),
    ("--describe --topics-with-overrides", "retention.ms=7200000"),
    ("--describe --unavailable-partitions", ""),
    ("--describe --at-min-isr-partitions --topic payments", "payments"),
    ("--alter --topic orders --partitions 4 --replica-assignment 101:102,102:101,101:102,102:101", ""),
    ("--alter --topic orders --partitions 2", "would not be an increase", 1),
    ("--alter --topic unknown --partitions 2", "does not exist", 1),
    ("--describe --topic orders", "PartitionCount: 4"),
    ("--delete --topic defaults", ""),
    ("--delete --topic unknown", "does not exist", 1),
    ("--list --exclude-internal", "orders"),
)

_LOGGERS: Final = f"--entity-type broker-loggers --entity-name {CONTROLLER_ID}"
CONFIGS: Final = [
    *_of(
        tools.CONFIGS,
        False,
        ("--alter --topic orders --add-config retention.ms=3600000,cleanup.policy=[compact,delete]", "Completed"),
        ("--describe --topic orders", "retention.ms=3600000"),
        ("--describe --topic payments --all", "min.insync.replicas=1"),
        ("--alter --topic orders --add-config retention.ms=never", "Invalid value never", 1),
        ("--alter --topic orders --add-config no.such.key=1", "no.such.key", 1),
        ("--alter --topic orders --delete-config cleanup.policy", "Completed"),
        ("--alter --topic unknown --add-config retention.ms=1", "UnknownTopic", 1),
        ("--describe --topic unknown", "doesn't exist"),
        ("--alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2", "Completed"),
        ("--alter --broker 101 --add-config message.max.bytes=2000000", "Completed"),
        ("--describe --broker 101", "message.max.bytes=2000000"),
        ("--describe --broker-defaults", "log.cleaner.threads=2"),
        ("--alter --broker 101 --add-config message.max.bytes=many", "many", 1),
        ("--alter --broker 101 --add-config log.dirs=elsewhere", "log.dirs", 1),
        ("--alter --broker 101 --delete-config message.max.bytes", "Completed"),
        ("--alter --broker-defaults --delete-config log.cleaner.threads", "Completed"),
        ("--alter --client-metrics watch --add-config interval.ms=1000,metrics=[a,b]", "Completed"),
        ("--alter --client-metrics watch --add-config interval.ms=1", "interval.ms", 1),
        ("--describe --client-metrics watch", "interval.ms=1000"),
        ("--describe --entity-type client-metrics", "watch"),
        ("--alter --group g --add-config consumer.session.timeout.ms=50000", "Completed"),
        ("--alter --group g --add-config consumer.session.timeout.ms=1", "consumer.session.timeout.ms", 1),
        ("--describe --group g", "consumer.session.timeout.ms=50000"),
        ("--describe --entity-type groups", "consumer.session.timeout.ms"),
        ("--describe --broker-logger 101", "root"),
    ),
    *_of(
        tools.CONFIGS,
        True,
        ("--alter --topic orders --add-config retention.ms=3700000,cleanup.policy=[compact,delete]", "Completed"),
        ("--describe --topic payments --all", "min.insync.replicas=1"),
        ("--alter --topic orders --add-config retention.ms=never", "Invalid value never", 1),
        ("--alter --topic orders --add-config no.such.key=1", "no.such.key", 1),
        ("--alter --topic orders --delete-config cleanup.policy", "Completed"),
        ("--alter --topic unknown --add-config retention.ms=1", "UnknownTopic", 1),
        ("--alter --broker-defaults --add-config log.cleaner.threads=2", "Completed"),
        ("--alter --broker 101 --add-config message.max.bytes=2000000", "Completed"),
        (f"--alter --broker {CONTROLLER_ID} --add-config max.connections=1000", "Completed"),
        (f"--describe --broker {CONTROLLER_ID}", "max.connections=1000"),
        (f"--alter --broker {CONTROLLER_ID} --delete-config max.connections", "Completed"),
        ("--describe --broker-defaults", "log.cleaner.threads=2"),
        ("--alter --broker 999 --add-config message.max.bytes=2000000", "999", 1),
        ("--alter --broker 101 --delete-config message.max.bytes", "Completed"),
        ("--alter --broker-defaults --delete-config log.cleaner.threads", "Completed"),
        ("--alter --client-metrics watch --add-config interval.ms=2000,metrics=[a]", "Completed"),
        ("--alter --client-metrics watch --add-config interval.ms=1", "interval.ms", 1),
        ("--alter --group g --add-config consumer.session.timeout.ms=55000", "Completed"),
        ("--alter --group g --add-config consumer.session.timeout.ms=1", "consumer.session.timeout.ms", 1),
        (f"--describe {_LOGGERS}", "root=INFO"),
        (f"--alter {_LOGGERS} --add-config root=WARN", "Completed"),
        (f"--describe {_LOGGERS}", "root=WARN"),
        (f"--alter {_LOGGERS} --add-config root=LOUD", "not a supported log level", 1),
        (f"--alter {_LOGGERS} --add-config no.such.logger=INFO", "Invalid broker logger(s): no.such.logger", 1),
        (f"--alter {_LOGGERS} --delete-config root", "Removing the log level of the root logger", 1),
        (f"--alter --broker-logger {CONTROLLER_ID} --add-config root=INFO", "Completed"),
        (f"--describe --broker-logger {CONTROLLER_ID}", "root=INFO"),
        ("--describe --broker-logger 999", "doesn't exist"),
    ),
]

USERS: Final = _of(
    tools.CONFIGS,
    False,
    ("--alter --user alice --add-config producer_byte_rate=1000,request_percentage=50.5", "Completed"),
    ("--alter --user alice --client app --add-config consumer_byte_rate=2000", "Completed"),
    ("--alter --user-defaults --add-config controller_mutation_rate=5", "Completed"),
    ("--alter --client-defaults --add-config producer_byte_rate=0", "greater than 0", 1),
    ("--alter --ip 127.0.0.9 --add-config connection_creation_rate=10", "Completed"),
    ("--describe --entity-type users", "alice"),
    ("--describe --entity-type users --entity-type clients", "alice"),
    ("--describe --user alice", "50.5"),
    ("--describe --user-defaults", "controller_mutation_rate"),
    ("--describe --entity-type ips", "127.0.0.9"),
    ("--alter --user alice --client app --delete-config consumer_byte_rate", "Completed"),
    ("--alter --user alice --delete-config request_percentage", "Completed"),
    ("--alter --user alice --add-config SCRAM-SHA-256=[iterations=4096,password=one]", "Completed"),
    ("--alter --user alice --add-config SCRAM-SHA-512=[password=two]", "Completed"),
    ("--alter --user alice --add-config SCRAM-SHA-256=[password=1],SCRAM-SHA-512=[password=2]", "altered twice", 1),
    ("--alter --user bob --add-config SCRAM-SHA-256=[iterations=16385,password=one]", "Too many iterations", 1),
    ("--describe --user alice", "SCRAM-SHA-512"),
    ("--alter --user alice --delete-config SCRAM-SHA-512", "Completed"),
    ("--alter --user alice --delete-config SCRAM-SHA-512", "does not exist", 1),
    ("--describe --user alice", "SCRAM-SHA-256"),
)

_ACLS: Final = (
    ("--list", ""),
    ("--add --allow-principal User:alice --operation Read --operation Describe --topic orders", "Adding ACLs"),
    ("--add --allow-principal User:alice --producer --topic pay --resource-pattern-type prefixed", "CREATE"),
    ("--add --allow-principal User:bob --consumer --topic orders --group g", "Adding ACLs"),
    ("--add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --cluster", "DENY"),
    ("--add --allow-principal User:bob --operation Describe --delegation-token t", "DELEGATION_TOKEN"),
    ("--add --allow-principal User:bob --operation CreateTokens --user-principal User:alice", "CREATE_TOKENS"),
    ("--add --allow-principal User:bob --operation Write --transactional-id tx", "TRANSACTIONAL_ID"),
    ("--add --allow-principal User:alice --operation Read --topic orders", "already exists"),
    ("--add --allow-principal User:alice --operation Alter --group g", "GROUP only supports operations", 1),
    ("--list --topic orders", "User:bob"),
    ("--list --principal User:alice", "User:alice"),
    ("--list --topic payments --resource-pattern-type match", "User:alice"),
    ("--remove --force --allow-principal User:alice --operation Read --topic orders", ""),
    ("--remove --force --topic pay --resource-pattern-type prefixed", ""),
    ("--list --topic orders", "DESCRIBE"),
    ("--remove --force --topic orders", ""),
    ("--remove --force --group g", ""),
    ("--remove --force --cluster", ""),
    ("--list", "CREATE_TOKENS"),
    ("--remove --force --user-principal User:alice", ""),
    ("--remove --force --delegation-token t", ""),
    ("--remove --force --transactional-id tx", ""),
)
ACLS: Final = _of(tools.ACLS, False, *_ACLS)
ACLS_OF_CONTROLLER: Final = _of(tools.ACLS, True, *_ACLS)

_FINISHED: Final = _moves(orders_0=[102, 101], payments_0=[102])
_THROTTLED: Final = _moves(payments_1=[101])
_ENDLESS: Final = _moves(orders_1=[102, 101, SILENT_BROKER_ID])
_ENDLESS_TOO: Final = _moves(orders_2=[SILENT_BROKER_ID])
REASSIGNMENTS: Final = [
    *_of(
        tools.REASSIGN,
        False,
        ("--list", "No partition reassignments found"),
        (f"--execute --reassignment-json-file {_FINISHED}", "Successfully started"),
        (f"--verify --preserve-throttles --reassignment-json-file {_FINISHED}", "orders-0 is completed"),
        (f"--verify --preserve-throttles --reassignment-json-file {_FINISHED}", "payments-0 is completed"),
        (f"--execute --throttle 5000000 --reassignment-json-file {_THROTTLED}", "limit was set"),
        (f"--verify --preserve-throttles --reassignment-json-file {_THROTTLED}", "is completed"),
        (f"--verify --reassignment-json-file {_THROTTLED}", "Clearing broker-level throttles on brokers"),
    ),
]
ENDLESS_REASSIGNMENTS: Final = [
    *_of(
        tools.REASSIGN,
        False,
        (f"--execute --reassignment-json-file {_ENDLESS}", "Successfully started"),
        ("--list", "orders-1"),
        (f"--execute --reassignment-json-file {_moves(orders_2=[101])}", "existing partition assignment", 1),
        (f"--execute --additional --reassignment-json-file {_ENDLESS_TOO}", "Successfully started"),
        (f"--verify --preserve-throttles --reassignment-json-file {_ENDLESS}", "still in progress"),
        ("--list", "orders-2"),
    ),
    *_of(tools.TOPICS, False, ("--describe --topic orders", f"Adding Replicas: {SILENT_BROKER_ID}")),
    *_of(
        tools.REASSIGN,
        True,
        ("--list", "orders-2"),
        (f"--cancel --preserve-throttles --reassignment-json-file {_ENDLESS_TOO}", "Successfully cancelled"),
        ("--list", "orders-1"),
    ),
    *_of(
        tools.REASSIGN,
        False,
        (f"--cancel --preserve-throttles --reassignment-json-file {_ENDLESS}", "Successfully cancelled"),
        (f"--cancel --preserve-throttles --reassignment-json-file {_ENDLESS}", "None of the specified"),
        ("--list", "No partition reassignments found"),
        (f"--execute --reassignment-json-file {_moves(orders_1=[999])}", "999", 1),
        (f"--execute --reassignment-json-file {_moves(orders_1=[102, 102])}", "duplicate", 1),
        (f"--execute --reassignment-json-file {_moves(orders_9=[102])}", "orders-9", 1),
        (f"--execute --reassignment-json-file {_moves(unknown_0=[102])}", "unknown", 1),
        (
            f"--execute --disallow-replication-factor-change --reassignment-json-file {_moves(orders_1=[102])}",
            "replication factor",
            1,
        ),
        (
            '--generate --broker-list 101 --topics-to-move-json-file {"version":1,"topics":[{"topic":"payments"}]}',
            "Proposed partition reassignment",
        ),
    ),
]

ELECTIONS: Final = _of(
    tools.ELECTION,
    False,
    ("--election-type preferred --topic orders --partition 0", "Successfully completed leader election"),
    ("--election-type preferred --topic orders --partition 0", "Valid replica already elected"),
    ("--election-type preferred --topic orders --partition 9", "UnknownTopicOrPartition", 1),
    ("--election-type unclean --topic orders --partition 1", "Valid replica already elected"),
    (f"--election-type preferred --path-to-json-file {_moves(orders_1=[], unknown_0=[])}", "unknown-0", 1),
    ("--election-type preferred --all-topic-partitions", ""),
)

_FEATURES: Final = (
    ("describe", "metadata.version"),
    ("upgrade --dry-run --feature transaction.version=2", "can be upgraded"),
    ("downgrade --feature transaction.version=1", "was downgraded to 1"),
    ("upgrade --feature transaction.version=2", "was upgraded to 2"),
    ("upgrade --feature transaction.version=9", "only supports versions 0-2", 1),
    ("upgrade --feature no.such.feature=1", "no.such.feature", 1),
    ("downgrade --feature metadata.version=7", "might delete metadata", 1),
    ("downgrade --dry-run --feature metadata.version=29", "might delete metadata", 1),
    ("downgrade --unsafe --dry-run --feature metadata.version=25", "Unsafe metadata downgrade", 1),
    ("upgrade --release-version 4.3", "metadata.version was upgraded to 30"),
    ("upgrade --dry-run --release-version 3.7", "without setting the upgrade type", 1),
    ("downgrade --release-version 4.2", "might delete metadata", 1),
    ("disable --feature share.version", "was disabled"),
    ("describe", "share.version"),
    ("upgrade --feature share.version=1 --feature group.version=1", "was upgraded to 1"),
    ("disable --feature metadata.version", "only supports versions 7-30", 1),
    ("upgrade --feature kraft.version=1", "was upgraded to 1"),
    ("downgrade --feature kraft.version=0", "Can't downgrade the version", 1),
)
FEATURES: Final = [
    *_of(tools.FEATURES, False, *_FEATURES, ("describe --node-id 101", "metadata.version")),
    *_of(tools.FEATURES, True, *_FEATURES, (f"describe --node-id {CONTROLLER_ID}", "metadata.version")),
]

CLUSTER: Final = [
    *_of(
        tools.CLUSTER,
        False,
        ("cluster-id", "Cluster ID"),
        ("list-endpoints", "unfenced"),
        ("list-endpoints --include-fenced-brokers", str(FENCED_BROKER_ID)),
    ),
    *_of(
        tools.CLUSTER,
        True,
        ("cluster-id", "Cluster ID"),
        ("list-endpoints", str(CONTROLLER_ID)),
        (f"unregister --id {FENCED_BROKER_ID}", "no longer registered"),
        (f"unregister --id {FENCED_BROKER_ID}", str(FENCED_BROKER_ID), 1),
    ),
    *_of(
        tools.CLUSTER,
        False,
        ("unregister --id 999", "999", 1),
        (f"unregister --id {SILENT_BROKER_ID}", "no longer registered"),
        ("list-endpoints --include-fenced-brokers", "unfenced"),
    ),
]

MOMENTARY: Final = {
    tools.FEATURES: re.compile(r"Epoch: \d+"),
    tools.QUORUM: re.compile(r"CurrentObservers.*|<id \d+>|\b\d+\b| +"),
}
"""What may differ between two clusters: offsets, times, and the order of observers."""

UNORDERED: Final = frozenset({tools.API_VERSIONS})
"""Tools whose output has no order."""

_QUORUM: Final = (
    ("describe --status", "LeaderId"),
    ("describe --replication", "Leader"),
    ("describe --replication --human-readable", "ago"),
    ("remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAZg", "VoterNotFound", 1),
)
QUORUM: Final = [*_of(tools.QUORUM, False, *_QUORUM), *_of(tools.QUORUM, True, *_QUORUM)]

VERSIONS: Final = _of(tools.API_VERSIONS, False, ("", "CreateTopics(19)"))
