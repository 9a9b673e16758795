"""Settings of the web process, from one file and the environment, checked once at the start.

The setting `http_port` is `CONCLAVE_HTTP_PORT` in the environment and `http_port = 8080` in the file (TOML). The
environment overrides the file. An unknown key in the file or an invalid value is refused with one line that names the
key, the value and what is allowed. An unknown `CONCLAVE_…` variable is ignored, since environments are shared.
"""

import ipaddress
import json
import re
import ssl
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.file_urls import check_url, is_url
from app.group_roles import GroupRole, group_role
from kraft_core.protocol.host_port import bracketed, parse_host_port
from kraft_core.security.client_properties import load_client_properties, load_client_security
from kraft_core.security.config_providers import resolve_variables
from kraft_core.security.listener_security import ClientSecurity
from kraft_core.security.properties import SecurityConfigError

SECRET_NAME: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
HIDDEN: Final = "**********"
SECRET_KEYS: Final = frozenset(
    {
        "admin_token",
        "database_url",
        "oidc_client_secret",
        "schema_registry_password",
        "spark_conf",
        "webhook_secret",
    }
)
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
REGISTRY_URL: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[^?#\s]*)?")
"""The form of a schema registry's address: its user has settings of its own."""
REGISTRY_USER: Final = "basic.auth.user.info"
REGISTRY_CA: Final = "schema.registry.ssl.truststore.location"
"""Properties of Confluent's clients, for the schema registry of an added cluster."""
_LOOPBACK: Final = re.compile(r"^http://(localhost|127[.]0[.]0[.]1|\[::1\])(:\d+)?(/[^?#\s]*)?$")


class SettingsError(ValueError):
    """A setting is missing or wrong. The text has one line per setting, ready to be printed."""


def _split(value: object) -> object:
    """Split a list that is written as text with commas, as in Kafka's configs."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _flat(value: object) -> object:
    """Return Spark's settings as one level, from nested tables of the file or from a JSON object in the environment."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be a JSON object of texts") from None
    if not isinstance(value, dict):
        raise ValueError("must be a table of Spark's settings, such as spark.executor.memory")  # noqa: TRY004 - pydantic takes ValueError
    flat: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat.update({f"{key}.{rest}": inner for rest, inner in cast("dict[str, str]", _flat(item)).items()})
        elif isinstance(item, bool):
            flat[str(key)] = str(item).lower()
        elif isinstance(item, str | int | float):
            flat[str(key)] = str(item)
        else:
            raise ValueError(f"'{key}' must be a text, a number or a boolean")  # noqa: TRY004 - as above
    return flat


SparkConf = Annotated[dict[str, str], NoDecode, BeforeValidator(_flat)]
ClusterColor = Literal["grey", "blue", "green", "yellow", "orange", "red", "purple"]
RecordRole = Literal["viewer", "editor", "admin", "nobody"]
GivenRole = Literal["viewer", "editor", "admin"]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """The settings of `conclave web`. Every field but the quorum's address has a default."""

    model_config = SettingsConfigDict(env_prefix="CONCLAVE_", extra="forbid", frozen=True, hide_input_in_errors=False)

    bootstrap_controllers: Names = Field(min_length=1, description="controllers of the quorum, HOST:PORT,…")
    command_config: Path | None = Field(
        default=None, description="client properties for a secured quorum: security.protocol, sasl.*, ssl.*"
    )
    cluster_name: str = Field(default="Kafka", max_length=60, description="name of the cluster on the pages")
    cluster_color: ClusterColor = Field(default="grey", description="colour of the cluster on the pages")
    cluster_id: str | None = Field(default=None, description="refuse a quorum with another cluster id")
    client_configs: Path | None = Field(
        default=None,
        description="folder of client properties for clusters added on the page; default data_dir/client-configs",
    )
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
    oidc_issuer: str | None = Field(default=None, description="URL of an OpenID issuer at which users log in")
    oidc_client_id: str = Field(default="", description="id of Conclave at the issuer")
    oidc_client_secret: SecretStr | None = Field(default=None, description="secret of Conclave at the issuer")
    oidc_scopes: Names = Field(
        default=("openid", "profile", "email"), description="scopes to ask the issuer for; some need groups too"
    )
    oidc_roles: Names = Field(
        default=(), description="roles of the issuer's groups, GROUP=ROLE[@CLUSTER[/PREFIX]],…; * is everybody"
    )
    oidc_groups_claim: str = Field(default="groups", description="claim with the user's groups; a.b: member b of a")
    oidc_name_claim: str = Field(default="preferred_username", description="claim with the user's name")
    oidc_label: str | None = Field(
        default=None, max_length=60, description="text of the button on the login page; default: in the user's language"
    )
    oidc_ca: Path | None = Field(
        default=None, description="PEM file of certificates that the issuer's TLS is checked with; none: the system's"
    )
    audit_days: int = Field(default=400, ge=1, le=36_500, description="days that audit events are kept")
    audit_rows_max: int = Field(
        default=1_000_000, ge=1_000, le=1_000_000_000, description="number of newest audit events that are kept"
    )
    body_bytes_max: int = Field(default=1_048_576, ge=1024, le=64 * 1_048_576, description="largest request body")
    request_timeout_ms: int = Field(default=30_000, ge=100, le=600_000, description="time for one call to the quorum")
    history_records_max: int = Field(
        default=20_000, ge=100, le=2_000_000, description="newest records of the metadata log that are kept in memory"
    )
    history_bytes: int = Field(
        default=1024**3, ge=1024**2, le=2**50, description="disk space for the history of the metadata log"
    )
    history_days: int = Field(default=90, ge=1, le=36_500, description="days that the history of the metadata is kept")
    spark_master: str = Field(
        default="local[*]", description="where reports are computed: local[*], spark://, sc://, …"
    )
    spark_memory: str = Field(default="1g", pattern=r"^\d+[kmgt]$", description="memory of the report's JVM")
    spark_conf: SparkConf = Field(
        default={}, description="further settings of Spark by name, such as spark.executor.memory"
    )
    spark_files: str = Field(
        default="", description="URL by which Spark reads and writes a report's files, if it does not see data_dir"
    )
    java_home: str = Field(default="", description="Java home for reports; searched for when empty")
    report_timeout_seconds: int = Field(
        default=900, ge=10, le=86_400, description="time after which a report is stopped"
    )
    report_days: int = Field(default=90, ge=1, le=36_500, description="days that reports are kept")
    report_runs_max: int = Field(default=400, ge=1, le=100_000, description="number of newest reports that are kept")
    report_snapshots_max: int = Field(
        default=14, ge=1, le=100_000, description="number of newest reports that keep their snapshot and event log"
    )
    webhook_secret: SecretStr | None = Field(default=None, description="key that signs webhooks; none: no webhooks")
    webhook_hosts: Names = Field(default=(), description="hosts that webhooks may call, as HOST or HOST:PORT")
    lake: str = Field(
        default="",
        description="folder or URL (file:, s3:, s3a:, gs:, abfs:, abfss:, hdfs:) of the metadata lake; off: none",
    )
    lake_days: int = Field(default=90, ge=1, le=36_500, description="days that the metadata lake keeps")
    lake_interval_seconds: int = Field(
        default=300, ge=1, le=86_400, description="time between two runs of the lake's writer"
    )
    records_read: RecordRole = Field(
        default="editor", description="role that may read records of topics: viewer, editor, admin, nobody"
    )
    records_write: RecordRole = Field(
        default="editor", description="role that may write records to topics: viewer, editor, admin, nobody"
    )
    schema_registry_url: str | None = Field(
        default=None,
        description="schema registry with Confluent's API, by which Avro, Protobuf and JSON Schema are decoded",
    )
    schema_registry_user: str = Field(default="", description="user of the schema registry")
    schema_registry_password: SecretStr | None = Field(default=None, description="password of that user")
    schema_registry_ca: Path | None = Field(
        default=None, description="PEM file of certificates that the registry's TLS is checked with; none: the system's"
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

    @field_validator("spark_conf")
    @classmethod
    def _spark_names(cls, value: dict[str, str]) -> dict[str, str]:
        own = {"spark.master": "spark_master", "spark.driver.memory": "spark_memory"}
        for key in value:
            if not key.startswith("spark."):
                raise ValueError(f"'{key}' is no setting of Spark; their names start with spark.")
            if key in own:
                raise ValueError(f"'{key}' is set by {own[key]}")
        return value

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^https?://[A-Za-z0-9.\-\[\]:]+/?$", value):
            raise ValueError("must be http:// or https:// with a host and no path")
        return value.rstrip("/") if value else None

    @field_validator("schema_registry_url")
    @classmethod
    def _registry_url(cls, value: str | None) -> str | None:
        if value and not REGISTRY_URL.fullmatch(value):
            raise ValueError("must be http:// or https:// with a host, without a user, a query or a fragment")
        return value or None

    @field_validator("oidc_issuer")
    @classmethod
    def _issuer_url(cls, value: str | None) -> str | None:
        if value and not re.match(r"^https://[A-Za-z0-9.\-\[\]:]+(/[^?#\s]*)?$", value) and not _LOOPBACK.match(value):
            raise ValueError("must be https:// (http:// on loopback only) without a user, a query or a fragment")
        return value or None

    @field_validator("oidc_scopes")
    @classmethod
    def _scopes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        scopes = tuple(word for text in value for word in text.split())
        if "openid" not in scopes:
            raise ValueError("must have the scope openid")
        return scopes

    @field_validator("oidc_roles")
    @classmethod
    def _group_roles(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            group_role(text, get_args(GivenRole))
        return value

    @field_validator("schema_registry_ca", "oidc_ca")
    @classmethod
    def _certificates(cls, value: Path | None) -> Path | None:
        if value is not None:
            _check_certificates(value)
        return value

    @field_validator("lake")
    @classmethod
    def _lake_place(cls, value: str) -> str:
        if is_url(value):
            check_url(value)
        elif re.match(r"[a-z][a-z0-9+.-]+:", value):
            raise ValueError("must be a folder, off, or a URL with '://'")
        return value

    @field_validator("spark_files")
    @classmethod
    def _spark_files_url(cls, value: str) -> str:
        if value:
            check_url(value)
        return value

    @field_validator("admin_token", "webhook_secret")
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

    @model_validator(mode="after")
    def _issuer_needs_client_and_roles(self) -> Self:
        if self.oidc_issuer is not None and (not self.oidc_client_id or not self.oidc_roles):
            raise ValueError("oidc_issuer needs oidc_client_id and oidc_roles")
        return self

    @property
    def oidc_group_roles(self) -> list[GroupRole]:
        """The entries of `oidc_roles`. Of several for a group and a place the last one counts."""
        found = [group_role(text, get_args(GivenRole)) for text in self.oidc_roles]
        return list({(each.group, each.cluster, each.topic_prefix): each for each in found}.values())

    @property
    def public_spark_conf(self) -> dict[str, str]:
        """`spark_conf` with the values hidden that Spark hides in its own listings (spark.redaction.regex)."""
        return {key: HIDDEN if SECRET_NAME.search(key) else value for key, value in self.spark_conf.items()}

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
    def client_properties(self) -> dict[str, str]:
        """The properties of `command_config`, for clients of the brokers. Raises SettingsError."""
        try:
            return {} if self.command_config is None else load_client_properties(self.command_config)
        except SecurityConfigError as error:
            raise SettingsError(f"command_config: {error}") from error

    def for_cluster(self, key: str, command_config: str, **values: Any) -> "Settings":
        """Return the settings of an added cluster: `values` instead of this process's, and folders of its own.

        `command_config` is the name of a file in `client_configs_dir`, "" for none. A schema registry is not inherited,
        since it knows the records of one cluster: its login is in that file. Raises SettingsError for a wrong file.
        """
        file = self.client_configs_dir / command_config if command_config else None
        values = {"schema_registry_url": None, **_registry_login(file), **values}
        values |= {
            "command_config": file,
            "data_dir": self.data_dir / "clusters" / key,
            "lake": self.lake_location or "off",
        }
        own = self.model_copy(update=values)
        own.__dict__.pop("kafka_security", None)  # the copy has what is cached too
        _ = own.kafka_security  # also checks the properties file
        return own

    @property
    def client_configs_dir(self) -> Path:
        """Folder of the files of client properties that added clusters may use."""
        return self.client_configs or self.data_dir / "client-configs"

    @property
    def web_dir(self) -> Path:
        """Folder of the web process's files, mode 0700."""
        return self.data_dir / "web"

    @property
    def history_dir(self) -> Path:
        """Folder of the stored metadata log, with one folder for each cluster."""
        return self.data_dir / "history"

    @property
    def lake_location(self) -> str | None:
        """Folder or URL of the metadata lake, None if there is none."""
        if self.lake == "off":
            return None
        return self.lake if is_url(self.lake) else str(Path(self.lake or self.data_dir / "lake").absolute())

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
        names = (*LOOPBACK_NAMES, *self.allowed_hosts, public, bracketed(self.host))
        return frozenset(name.lower() for name in names if name)


def _check_certificates(path: Path) -> None:
    """Raise ValueError unless the file has certificates in PEM."""
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as wrong:
        raise ValueError(f"cannot be read as PEM certificates: {wrong}") from None


def _registry_login(file: Path | None) -> dict[str, Any]:
    """Return the settings that a file of client properties has for the schema registry. Raises SettingsError."""
    try:
        found = {} if file is None else resolve_variables(load_client_properties(file))
        ca_file = Path(found[REGISTRY_CA]) if REGISTRY_CA in found else None
        if ca_file is not None:
            _check_certificates(ca_file)
    except SecurityConfigError as error:
        raise SettingsError(f"command_config: {error}") from error
    except ValueError as wrong:
        raise SettingsError(f"command_config: {REGISTRY_CA}: {wrong}") from None
    user, _, password = found.get(REGISTRY_USER, "").partition(":")
    return {
        "schema_registry_user": user,
        "schema_registry_password": SecretStr(password),
        "schema_registry_ca": ca_file,
    }


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
    if key in SECRET_KEYS or not error["loc"]:
        return f"{where}{key}: {message}"
    return f"{where}{key} = {error['input']!r}: {message}"
