"""Two clusters that differ in their controller only, Apache's or ours, each with two of Apache's brokers with users."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import conclave, kafka
from tests.interop.admin import tools

CONTROLLER_ID = 3000
BROKER_IDS = (101, 102)
SILENT_BROKER_ID = 103
"""A broker that is considered alive and does nothing: a reassignment to it never completes."""
FENCED_BROKER_ID = 104
"""A broker that has only registered."""
PASSWORD = "users-secret"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
COMMON = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "key-of-all-delegation-tokens",
    "broker.session.timeout.ms": 3_600_000,  # a busy machine must not fence a broker
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.dedupe.buffer.size": 4_000_000,
}
ID = re.compile(r"(?<![\w.-])(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{22}(?![\w=(-])")
MASKS = (
    (re.compile(r"(?m)^\s+at .*\n|^\s+\.\.\. \d+ more\n"), ""),
    (
        re.compile(r"(?m)^  (?!root=)[\w.$-]+=(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) sensitive=false synonyms=\{\}\n"),
        "",
    ),  # loggers differ
    (re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\]"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), "<date>"),
    (re.compile(r"[A-Za-z0-9+/]{86}=="), "<hmac>"),
    (re.compile(r"adminclient-\d+"), "<client>"),
)


@dataclass
class Cluster:
    """One of the two. `words` replaces what necessarily differs: ports, random ids, dates."""

    folder: Path
    cluster_id: str
    controller_port: int = 0
    client_ports: dict[int, int] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    @property
    def brokers(self) -> str:
        """host:port of every broker, for clients that log in."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    @property
    def controller(self) -> str:
        """host:port of the controller."""
        return f"127.0.0.1:{self.controller_port}"

    def config_of(self, node_id: int) -> Path:
        """Return the path of a node's server.properties."""
        return self.folder / f"node-{node_id}" / "server.properties"

    @property
    def admin_config(self) -> Path:
        """Return the client properties of the administrator, with a password."""
        jaas = f'{PLAIN_MODULE} required username="admin" password="{PASSWORD}";'
        return self._client_config("admin", "PLAIN", jaas)

    def token_config(self, token_id: str, hmac: str) -> Path:
        """Return the client properties of a user with a delegation token."""
        jaas = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
        return self._client_config("token", "SCRAM-SHA-256", jaas)

    def _client_config(self, name: str, mechanism: str, jaas: str) -> Path:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            "default.api.timeout.ms": 90_000,
            "request.timeout.ms": 60_000,
        }
        return kafka.write_properties(self.folder / f"{name}.properties", settings)

    def format(self, jvm: tools.Tools) -> None:
        """Choose ports, write all configurations, and format every node with Apache's command."""
        self.controller_port, *ports = kafka.free_ports(1 + 2 * len(BROKER_IDS))
        self.client_ports = dict(zip(BROKER_IDS, ports[::2], strict=True))
        folder = self.config_of(CONTROLLER_ID).parent
        settings = kafka.controller_settings(CONTROLLER_ID, self.controller_port, folder, self.controller)
        self._format(jvm, CONTROLLER_ID, settings, "--standalone")
        for broker_id, internal_port in zip(BROKER_IDS, ports[1::2], strict=True):
            settings = self._broker_settings(broker_id, internal_port)
            self._format(jvm, broker_id, settings, "--no-initial-controllers")

    def _broker_settings(self, broker_id: int, internal_port: int) -> dict[str, object]:
        port = self.client_ports[broker_id]
        return {
            **kafka.broker_settings(broker_id, port, self.config_of(broker_id).parent, self.controller),
            "listeners": f"CLIENT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal_port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.client.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="{PASSWORD}";',
            "listener.name.client.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        }

    def _format(self, jvm: tools.Tools, node_id: int, settings: dict[str, object], option: str) -> None:
        config = self.config_of(node_id)
        config.parent.mkdir(parents=True)
        kafka.write_properties(config, {**settings, **COMMON})
        jvm.run(tools.STORAGE, "format", "-t", self.cluster_id, "-c", config, option)

    def register(self, broker_id: int) -> None:
        """Register a broker without a process."""

        async def register() -> None:
            client = conclave.controller_client(self.controller)
            try:
                broker = conclave.RawBroker(broker_id, self.cluster_id, client, "CLIENT")
                await broker.register(until_unfenced=broker_id != FENCED_BROKER_ID)
            finally:
                client.close()

        asyncio.run(register())

    def words(self, printed: str) -> list[str]:
        """Return the lines of an output without what must differ between two clusters."""
        for port, name in {self.controller_port: "controller", **dict.fromkeys(self.client_ports.values())}.items():
            shown = name or next(str(each) for each, found in self.client_ports.items() if found == port)
            printed = re.sub(rf"(?<!\d){port}(?!\d)", f"<port of {shown}>", printed)
        printed = printed.replace(str(self.folder), "<folder>")
        for pattern, word in MASKS:
            printed = pattern.sub(word, printed)
        return [line.rstrip() for line in ID.sub(self._name_of, printed).splitlines()]

    def _name_of(self, found: re.Match[str]) -> str:
        """Replace ids by numbers in the order of appearance, so that equal outputs stay equal."""
        if found[0] == self.cluster_id:
            return "<cluster id>"
        return self._names.setdefault(found[0], f"<id {len(self._names) + 1}>")


@contextmanager
def two_clusters(folder: Path, jvm: tools.Tools) -> Iterator[tuple[Cluster, Cluster]]:
    """Yield the cluster with Apache's controller and the one with ours. All of Apache's nodes share one JVM."""
    cluster_id = conclave.new_cluster_id()
    apache, ours = (Cluster(folder / side, cluster_id) for side in ("apache", "ours"))
    for cluster in (apache, ours):
        cluster.format(jvm)
    nodes = [
        apache.config_of(CONTROLLER_ID),
        *(each.config_of(broker_id) for each in (apache, ours) for broker_id in BROKER_IDS),
    ]
    program = str(Path(__file__).with_name("Nodes.java"))
    with (
        conclave.start("conclave", ours.config_of(CONTROLLER_ID)),
        kafka.Process("apache", kafka.java(program, *map(str, nodes)), folder) as jvm_of_nodes,
    ):
        jvm_of_nodes.wait_for_output("all nodes started", 2 * kafka.PATIENCE_S)
        for cluster in (apache, ours):
            cluster.register(FENCED_BROKER_ID)
        yield apache, ours
