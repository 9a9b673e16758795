"""One of Apache's nodes with TLS, logins and access control, and the configs of clients for its listeners."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import conclave, kafka
from tests.security.certificates import authority, ssl_properties
from tests.security.secure_listener import PLAIN_MODULE, SCRAM_MODULE
from tests.security.secure_quorum import stores

PASSWORDS = {name: f"{name[0]}-secret" for name in ("alice", "bob", "carol", "dave")}
LOGIN_LIFETIME_MS = 1_500
"""Of logins with SCRAM-SHA-512 (connections.max.reauth.ms)."""


@dataclass(frozen=True)
class SecuredBroker:
    """The addresses of the listeners. Everything needs rights, which `alice` and clients of `open` have."""

    open: str  # PLAINTEXT
    login: str  # SASL_PLAINTEXT with PLAIN
    encrypted: str  # SASL_SSL with PLAIN and SCRAM-SHA-512
    mutual: str  # SSL with the certificates of clients

    def configs(
        self, mechanism: str = "PLAIN", user: str = "alice", password: str | None = None, trusted: str | None = None
    ) -> dict[str, object]:
        """Return the configs of a client of `encrypted`."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        secret = PASSWORDS[user] if password is None else password
        return {
            "bootstrap.servers": self.encrypted,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{secret}";',
            **ssl_properties(None, trusted=trusted),
        }

    def mutual_configs(self, name: str | None) -> dict[str, object]:
        """Return the configs of a client of `mutual` with a certificate of this name."""
        identity = None if name is None else authority().issue(name)
        return {"bootstrap.servers": self.mutual, "security.protocol": "SSL", **ssl_properties(identity)}


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Yield a running node."""
    kafka.require()
    ports = dict(zip(("PLAINTEXT", "LOGIN", "ENCRYPTED", "MUTUAL", "CONTROLLER"), kafka.free_ports(5), strict=True))
    settings = kafka.broker_settings(1, ports["PLAINTEXT"], folder, f"127.0.0.1:{ports['CONTROLLER']}")
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    encrypted = "listener.name.encrypted."
    settings |= {
        "process.roles": "broker,controller",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,ENCRYPTED:SASL_SSL,MUTUAL:SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        f"{encrypted}plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        f"{encrypted}scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{encrypted}scram-sha-512.connections.max.reauth.ms": LOGIN_LIFETIME_MS,
        "listener.name.mutual.ssl.client.auth": "required",
        **stores(folder / "stores", authority().issue("node", hosts=("127.0.0.1",))),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:CN=alice,O=Conclave",
    }
    config = kafka.write_properties(folder / "server.properties", settings)
    scram = f"SCRAM-SHA-512=[name=alice,password={PASSWORDS['alice']}]"
    kafka.format_storage(config, conclave.new_cluster_id(), "--standalone", "--add-scram", scram)
    with kafka.start("secured", config) as process:
        process.wait_for_output("Kafka Server started")
        address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        yield SecuredBroker(address["PLAINTEXT"], address["LOGIN"], address["ENCRYPTED"], address["MUTUAL"])
