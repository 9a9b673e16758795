"""The clusters that admins have added beside that of the settings: the table, and the checks of what is entered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from app.config import REGISTRY_URL, ClusterColor
from app.db.base import OfCluster, utc_now
from app.db.models import ApiToken, AuditEvent, ClusterRecord
from app.http.cluster_paths import HOME, KEY
from app.texts import joined, phrase
from kraft_core.protocol.host_port import parse_host_port

COLORS: Final[tuple[ClusterColor, ...]] = get_args(ClusterColor)
"""Colours that tell clusters apart, on every page of a cluster."""
ADDRESSES_MAX: Final = 20
NAME_MAX: Final = 60
URL_MAX: Final = 500
CLUSTERS_MAX: Final = 100
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What an admin says about a cluster; see app.db.models.ClusterRecord."""

    key: str
    name: str
    bootstrap_controllers: tuple[str, ...]
    command_config: str = ""
    schema_registry_url: str = ""
    color: str = COLORS[0]

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """The controllers to connect to first, as (host, port)."""
        return [parse_host_port(text) for text in self.bootstrap_controllers]


class ClusterError(Exception):
    """A cluster cannot be added, changed or removed. `field` is the wrong field of the form, "" for none."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class ClusterConflictError(ClusterError):
    """The key or the cluster id is that of another cluster."""


class UnknownClusterError(ClusterError):
    """No cluster has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(phrase("There is no cluster '%(key)s'.", key=key[:60]))


def check(spec: ClusterSpec, configs: Path) -> None:
    """Raise ClusterError with the first field that is wrong. `configs` is the folder of the client properties."""
    if KEY.fullmatch(spec.key) is None or spec.key == HOME:
        raise ClusterError(
            phrase(
                "key '%(key)s' must be 1 to 32 of a-z, 0-9 and -, without a - at its ends, and not %(home)s.",
                key=spec.key[:60],
                home=HOME,
            ),
            "key",
        )
    if not 1 <= len(spec.name) <= NAME_MAX or not spec.name.isprintable():
        raise ClusterError(phrase("name must have 1 to %(most)s characters on one line.", most=NAME_MAX), "name")
    if spec.color not in COLORS:
        text = phrase("color '%(color)s' is not one of %(known)s.", color=spec.color[:40], known=joined(", ", COLORS))
        raise ClusterError(text, "color")
    if not 1 <= len(spec.bootstrap_controllers) <= ADDRESSES_MAX:
        text = phrase("bootstrap_controllers must be 1 to %(most)s addresses, HOST:PORT.", most=ADDRESSES_MAX)
        raise ClusterError(text, "bootstrap_controllers")
    for address in spec.bootstrap_controllers:
        try:
            parse_host_port(address)
        except ValueError:
            text = phrase("bootstrap_controllers: '%(address)s' is not HOST:PORT.", address=address[:80])
            raise ClusterError(text, "bootstrap_controllers") from None
    url = spec.schema_registry_url
    if url and (len(url) > URL_MAX or REGISTRY_URL.fullmatch(url) is None):
        text = phrase(
            "schema_registry_url '%(url)s' must be http:// or https:// with a host, without a user, a query or a "
            "fragment, at most %(most)s characters.",
            url=url[:80],
            most=URL_MAX,
        )
        raise ClusterError(text, "schema_registry_url")
    if spec.command_config and spec.command_config not in config_files(configs):
        text = phrase(
            "command_config: there is no file '%(name)s' in %(folder)s on the server.",
            name=spec.command_config[:100],
            folder=str(configs),
        )
        raise ClusterError(text, "command_config")


def config_files(folder: Path) -> list[str]:
    """Return the names of the files of client properties that may be chosen, sorted."""
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_file() and _FILE.fullmatch(path.name))
    except OSError:
        return []


def spec_of(record: ClusterRecord) -> ClusterSpec:
    """Return the specification of a stored cluster."""
    addresses = tuple(record.bootstrap_controllers.split(","))
    return ClusterSpec(
        key=record.key,
        name=record.name,
        bootstrap_controllers=addresses,
        command_config=record.command_config,
        schema_registry_url=record.schema_registry_url,
        color=record.color,
    )


def clusters(session: Session) -> Sequence[ClusterRecord]:
    """Return all added clusters by name."""
    return session.scalars(select(ClusterRecord).order_by(ClusterRecord.name, ClusterRecord.key)).all()


def known_cluster(session: Session, key: str) -> ClusterRecord:
    """Return the added cluster with this key. Raises UnknownClusterError."""
    found = session.scalar(select(ClusterRecord).where(ClusterRecord.key == key))
    if found is None:
        raise UnknownClusterError(key)
    return found


def put_cluster(
    session: Session, spec: ClusterSpec, cluster_id: str, changed_by: str, *, is_new: bool
) -> ClusterRecord:
    """Add or change a cluster that has been checked and tested.

    Raises ClusterConflictError for a key or a cluster id that another one has, UnknownClusterError.
    """
    found = session.scalar(select(ClusterRecord).where(ClusterRecord.key == spec.key).with_for_update())
    if is_new and found is not None:
        raise ClusterConflictError(phrase("key '%(key)s' is that of another cluster.", key=spec.key), "key")
    if not is_new and found is None:
        raise UnknownClusterError(spec.key)
    twin = session.scalar(
        select(ClusterRecord.key).where(ClusterRecord.cluster_id == cluster_id, ClusterRecord.key != spec.key)
    )
    if twin is not None:
        raise ClusterConflictError(
            phrase("Cluster %(id)s is here already, with the key '%(key)s'.", id=cluster_id, key=twin),
            "bootstrap_controllers",
        )
    if found is not None and found.cluster_id != cluster_id:
        raise ClusterConflictError(
            phrase(
                "The controllers belong to cluster %(found)s, but '%(key)s' is cluster %(known)s: add it as a new one.",
                found=cluster_id,
                key=spec.key,
                known=found.cluster_id,
            ),
            "bootstrap_controllers",
        )
    if found is None:
        if (session.scalar(select(func.count(ClusterRecord.id))) or 0) >= CLUSTERS_MAX:
            raise ClusterError(phrase("There are %(most)s clusters, the most that are kept.", most=CLUSTERS_MAX))
        found = ClusterRecord(key=spec.key, cluster_id=cluster_id)
        session.add(found)
    found.name, found.color, found.command_config = spec.name, spec.color, spec.command_config
    found.schema_registry_url = spec.schema_registry_url
    found.bootstrap_controllers = ",".join(spec.bootstrap_controllers)
    found.changed_by, found.changed_at = changed_by, utc_now()
    session.flush()
    return found


def remove_cluster(session: Session, key: str) -> None:
    """Remove a cluster with its schedules, reports and plans, and the tokens that are valid in it alone.

    Its audit events stay. Raises UnknownClusterError.
    """
    if not getattr(session.execute(delete(ClusterRecord).where(ClusterRecord.key == key)), "rowcount", 0):
        raise UnknownClusterError(key)
    for table in OfCluster.__subclasses__():
        if table is not AuditEvent:
            session.execute(delete(table).where(table.cluster == key))
    session.execute(delete(ApiToken).where(ApiToken.cluster == key))
