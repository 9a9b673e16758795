"""A quorum of controllers, ours or Apache's, with TLS or SASL, and a client for it."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kraft_core.clients.kafka_client import ControllerClient, KafkaConnection, find_leader
from kraft_core.protocol.errors import KafkaError
from kraft_core.security.listener_security import ClientSecurity, client_security
from kraft_core.storage.format import FormatRequest, format_storage, parse_initial_controllers
from tests.interop import kafka
from tests.interop.conclave import Quorum
from tests.security.certificates import Identity, authority

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "controllers-secret"
STORE_PASSWORD = "store-secret"


def one_line(pem: str) -> str:
    """Return PEM as one line with escapes, for a properties file."""
    return pem.strip().replace("\n", "\\n")


def stores(folder: Path, identity: Identity) -> dict[str, str]:
    """Return TLS settings for Apache's nodes and ours: a PKCS12 key store and PEM certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "key.p12"
    store.touch(mode=0o600)
    store.write_bytes(identity.pkcs12(STORE_PASSWORD))
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": one_line(authority().pem),
    }


def sasl_settings(mechanism: str) -> dict[str, str]:
    """Return the settings of a controller listener on which all controllers are the user `controller`."""
    users = f'user_controller="{PASSWORD}" user_admin="{PASSWORD}"' if mechanism == "PLAIN" else ""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="controller" password="{PASSWORD}" {users};'
    return {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        f"listener.name.controller.{mechanism.lower()}.sasl.jaas.config": jaas,
    }


class SecureQuorum(Quorum):
    """A quorum with `protocol` and `mechanism` on the controller listener; `client_properties` are for its clients."""

    def __init__(
        self, folder: Path, size: int, protocol: str, mechanism: str | None = None, **settings: object
    ) -> None:
        super().__init__(folder, size, {key.replace("_", "."): value for key, value in settings.items()})
        self.protocol = protocol
        self.client_properties = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            self.client_properties |= stores(folder / "client", authority().issue("admin"))
        if mechanism is not None:
            module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
            self.client_properties |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{module} required username="admin" password="{PASSWORD}";',
            }
        for node_id in self.node_ids:
            node_folder = self.folder_of(node_id)
            secured: dict[str, object] = {
                "listener.security.protocol.map": f"CONTROLLER:{protocol},PLAINTEXT:PLAINTEXT"
            }
            if protocol.endswith("SSL"):
                secured |= stores(node_folder, authority().issue(f"controller-{node_id}"))
            if mechanism is not None:
                secured |= sasl_settings(mechanism)
            base = kafka.controller_settings(node_id, self.port_of(node_id), node_folder, self.bootstrap)
            kafka.write_properties(self.config_of(node_id), {**base, **self.extra_settings, **secured})
        self.mechanism = mechanism
        self.command_config = kafka.write_properties(folder / "client.properties", self.client_properties)

    def format(self, node_id: int, initial_controllers: str | None = None) -> None:
        """Format a node; with SCRAM, `--add-scram` creates the users `controller` and `admin`."""
        folder = self.folder_of(node_id) / "data"
        is_scram = self.mechanism is not None and self.mechanism != "PLAIN"
        users = [f"{self.mechanism}=[name={name},password={PASSWORD}]" for name in ("controller", "admin")]
        request = FormatRequest(
            node_id=node_id,
            cluster_id=self.cluster_id,
            log_dirs=[folder],
            metadata_log_dir=folder,
            is_dynamic=True,
            voters=parse_initial_controllers(initial_controllers or self.initial_controllers, "CONTROLLER"),
            scram_arguments=users if is_scram else [],
        )
        format_storage(request, print)

    @property
    def security(self) -> ClientSecurity:
        """Security of the tests' client."""
        read: Mapping[str, str] = {key: value.replace("\\n", "\n") for key, value in self.client_properties.items()}
        return client_security(read)

    def client(self) -> ControllerClient:
        """Return a client of the active controller."""
        return self.client_of(self.security)

    def client_of(self, security: ClientSecurity) -> ControllerClient:
        """Return a client of the active controller with another security."""
        return ControllerClient([("127.0.0.1", port) for port in self.ports], security=security)

    async def leader(self) -> tuple[int, int] | None:
        """Return (node id, -1) of the leader that the first running node knows."""
        for node_id, process in self.processes.items():
            if not process.alive or node_id in self.frozen:
                continue
            try:
                connection = await KafkaConnection.open(
                    "127.0.0.1", self.port_of(node_id), "test", 3_000, self.security
                )
            except (ConnectionError, KafkaError):
                continue
            try:
                found = await find_leader(connection)
            except (ConnectionError, KafkaError):
                continue
            finally:
                connection.close()
            if found is not None and self.processes[found.node_id].alive:
                return found.node_id, -1
        return None


@contextmanager
def secure_quorum(
    folder: Path, size: int, protocol: str, mechanism: str | None = None, **settings: object
) -> Iterator[SecureQuorum]:
    """Yield a quorum whose processes are killed at the end."""
    found = SecureQuorum(folder, size, protocol, mechanism, **settings)
    try:
        yield found
    finally:
        found.stop_all()


def wait_for_voters(found: SecureQuorum, timeout_s: float = kafka.PATIENCE_S) -> None:
    """Wait until every voter follows: the leader knows the end offsets of all logs."""
    from kraft_core.protocol.messages import (
        DescribeQuorumRequest,
        DescribeQuorumRequestPartitionData,
        DescribeQuorumRequestTopicData,
        DescribeQuorumResponse,
    )

    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
    )

    async def poll() -> None:
        client = found.client()
        deadline = time.monotonic() + timeout_s
        seen: object = None
        while time.monotonic() < deadline:
            try:
                answer = await client.request(DescribeQuorumRequest(topics=(topic,)), 5_000, idempotent=True)
            except (ConnectionError, KafkaError) as error:
                seen = error
                await asyncio.sleep(0.1)
                continue
            assert isinstance(answer, DescribeQuorumResponse)
            seen = answer.topics[0].partitions[0] if answer.topics else answer
            if answer.topics and all(
                voter.log_end_offset > 0 for voter in answer.topics[0].partitions[0].current_voters
            ):
                client.close()
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"not all voters follow: {seen}\n{found.outputs()}")

    asyncio.run(poll())
