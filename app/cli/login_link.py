"""`conclave login-link`: a one-time link for a user who cannot log in. It needs access to the machine."""

from pathlib import Path

from app.config import SettingsError, load_settings
from app.db.database import Database
from app.security.accounts import AccountError
from app.security.service import Security
from kraft_core.protocol.host_port import host_port
from kraft_core.server.config.kafka_config import KafkaConfig


def print_login_link(config: Path | None, data: Path | None, user: str, url: str | None) -> None:
    """Create the link and print it. It replaces an earlier link of the same user.

    Raises ConfigError, OSError and SettingsError, the last also when the user or the database does not exist.
    """
    servers = None
    if data is not None:
        node = KafkaConfig.load(data / "server.properties")
        servers = node.originals.get("controller.quorum.bootstrap.servers")
    settings = load_settings(config, data_dir=data, bootstrap_controllers=servers)
    if settings.database_url is None and not (settings.web_dir / "conclave.db").exists():
        raise SettingsError(f"{settings.web_dir} has no database: the web process has never run there")
    database = Database(settings.sqlalchemy_url)
    try:
        base_url = url or settings.public_url or f"http://{host_port(settings.host, settings.http_port)}"
        print(Security(database, settings).new_login_link_now(user, base_url.rstrip("/")))
    except AccountError as unknown:
        raise SettingsError(f"--user {user}: {unknown}") from unknown
    finally:
        database.close()
