"""Settings of the web process, from one file and the environment, checked once at the start.

The setting `http_port` is `CONCLAVE_HTTP_PORT` in the environment and `http_port = 8080` in the file (TOML). The
environment overrides the file. An unknown key in the file or an invalid value is refused with one line that names the
key, the value and what is allowed. An unknown `CONCLAVE_…` variable is ignored, since environments are shared.
"""

import ipaddress
import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from kraft_core.security.client_properties import load_client_security
from kraft_core.security.listener_security import ClientSecurity
from kraft_core.security.properties import SecurityConfigError

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST_PORT = re.compile(r"^(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})$")


class SettingsError(ValueError):
    """A setting is missing or wrong. The text has one line per setting, ready to be printed."""


def parse_host_port(text: str) -> tuple[str, int]:
    """Split `host:port`, with an IPv6 address in brackets. Raises ValueError that names the text."""
    found = _HOST_PORT.match(text.strip())
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def _split(value: object) -> object:
    """Split a list that is written as text with commas, as in Kafka's configs."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """The settings of `conclave web`. Every field but the quorum's address has a default."""

    model_config = SettingsConfigDict(env_prefix="CONCLAVE_", extra="forbid", frozen=True, hide_input_in_errors=False)

    bootstrap_controllers: Names = Field(min_length=1, description="controllers of the quorum, HOST:PORT,…")
    command_config: Path | None = Field(
        default=None, description="client properties for a secured quorum: security.protocol, sasl.*, ssl.*"
    )
    cluster_id: str | None = Field(default=None, description="refuse a quorum with another cluster id")
    data_dir: Path = Field(
        default=Path("conclave-data"), description="folder for the database, the login link, reports"
    )
    host: str = Field(default="127.0.0.1", description="address the web server binds")
    http_port: int = Field(default=8080, ge=0, le=65535, description="port of the web server; 0 selects a free one")
    allowed_hosts: Names = Field(default=(), description="names a Host header may carry beside loopback and `host`")
    public_url: str | None = Field(default=None, description="URL for users, behind a proxy")
    trusted_proxies: Names = Field(
        default=(), description="proxies whose X-Forwarded-For and -Proto are trusted, as addresses or networks"
    )
    database_url: SecretStr | None = Field(default=None, description="SQLAlchemy URL; default SQLite in data_dir/web")
    admin_token: SecretStr | None = Field(default=None, description="admin API token to set up at the first start")
    session_idle_minutes: int = Field(
        default=30, ge=1, le=24 * 60, description="time without a request after which a session ends"
    )
    session_absolute_hours: int = Field(default=12, ge=1, le=30 * 24, description="longest life of a session")
    login_attempts_max: int = Field(default=5, ge=1, le=1000, description="wrong logins allowed per account and source")
    login_window_seconds: int = Field(
        default=300, ge=1, le=86_400, description="time over which wrong logins are counted"
    )
    audit_days: int = Field(default=400, ge=1, le=36_500, description="days that audit events are kept")
    audit_rows_max: int = Field(
        default=1_000_000, ge=1_000, le=1_000_000_000, description="number of newest audit events that are kept"
    )
    body_bytes_max: int = Field(default=1_048_576, ge=1024, le=64 * 1_048_576, description="largest request body")
    request_timeout_ms: int = Field(default=30_000, ge=100, le=600_000, description="time for one call to the quorum")
    history_records_max: int = Field(
        default=20_000, ge=100, le=2_000_000, description="records that the change feed keeps"
    )
    spark_master: str = Field(
        default="local[*]", description="where reports are computed: local[*], spark://, sc://, …"
    )
    spark_memory: str = Field(default="1g", pattern=r"^\d+[kmgt]$", description="memory of the report's JVM")
    java_home: str = Field(default="", description="Java home for reports; searched for when empty")
    report_timeout_seconds: int = Field(
        default=900, ge=10, le=86_400, description="time after which a report is stopped"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="form of the log lines")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level that is logged"
    )

    @field_validator("bootstrap_controllers")
    @classmethod
    def _endpoints(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            parse_host_port(text)
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError:
                raise ValueError(f"'{text}' is not an IP address or network") from None
        return value

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^https?://[A-Za-z0-9.\-\[\]:]+/?$", value):
            raise ValueError("must be http:// or https:// with a host and no path")
        return value.rstrip("/") if value else None

    @field_validator("admin_token")
    @classmethod
    def _strong(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("must have at least 16 characters")
        return value

    @model_validator(mode="after")
    def _public_bind_needs_names(self) -> Self:
        if self.host in {"0.0.0.0", "::"} and not self.allowed_hosts and self.public_url is None:  # noqa: S104 - compared, not bound
            raise ValueError(f"host {self.host} takes requests for any name: set allowed_hosts or public_url")
        return self

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """The controllers to connect to first, as (host, port)."""
        return [parse_host_port(text) for text in self.bootstrap_controllers]

    @cached_property
    def kafka_security(self) -> ClientSecurity:
        """How to connect to the quorum: from `command_config`, else in plaintext. Raises SettingsError."""
        try:
            return load_client_security(self.command_config)
        except SecurityConfigError as error:
            raise SettingsError(f"command_config: {error}") from error

    @property
    def web_dir(self) -> Path:
        """Folder of the web process's files, mode 0700."""
        return self.data_dir / "web"

    @property
    def sqlalchemy_url(self) -> str:
        """URL of the database: `database_url`, else SQLite in `web_dir`."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.web_dir / 'conclave.db').resolve()}"

    @property
    def host_names(self) -> frozenset[str]:
        """Allowed names of a Host header, in lower case and without port."""
        public = re.sub(r"^https?://|:\d+$", "", self.public_url) if self.public_url else ""
        bound = f"[{self.host}]" if _is_ipv6(self.host) else self.host
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, *self.allowed_hosts, public, bound) if name)


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """Read the file, if any, then the environment, then `overrides` that are not None, and check all settings.

    Raises SettingsError with one line per wrong setting, before any file is written.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except OSError as unreadable:
            raise SettingsError(f"{path}: {unreadable.strerror or unreadable}") from unreadable
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as garbled:
            raise SettingsError(f"{path}: not TOML: {garbled}") from garbled
    given = {key: value for key, value in overrides.items() if value is not None}

    class Sources(Settings):
        """The settings read from arguments, environment and file, in this order of precedence."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, values)

    try:
        settings = Sources(**given)
    except ValidationError as wrong:
        raise SettingsError("\n".join(_line(error, path) for error in wrong.errors())) from None
    _ = settings.kafka_security  # also checks the properties file
    return settings


def _line(error: Any, path: Path | None) -> str:
    """Return one wrong setting as one line: key, value (never that of a secret) and what is allowed."""
    key = ".".join(str(part) for part in error["loc"]) or "settings"
    where = f"{path}: " if path is not None else ""
    if error["type"] == "extra_forbidden":
        return f"{where}unknown key '{key}'; known: {', '.join(sorted(Settings.model_fields))}"
    if error["type"] == "missing":
        return f"{where}{key} is missing: {Settings.model_fields[key].description} (or CONCLAVE_{key.upper()})"
    message = error["msg"].removeprefix("Value error, ")
    if key in {"admin_token", "database_url"} or not error["loc"]:
        return f"{where}{key}: {message}"
    return f"{where}{key} = {error['input']!r}: {message}"
