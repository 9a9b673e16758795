"""Keeps the history of epochs in the database, so that it survives a restart and the log's retention.

What web processes of one PostgreSQL have observed of the same epochs is stored once, and read again by all of them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as OrmSession

from app.cluster.epoch_reader import EpochReader
from app.cluster.epochs import EPOCHS_MAX, Epoch
from app.cluster.history import History
from app.db.database import Database
from app.db.models import QuorumEpoch
from app.db.outage import DatabaseUnavailableError
from app.tasks import cancel_tasks
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import LossKind, MetadataObserver
from kraft_core.protocol.errors import KafkaError

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0
AGREE_SECONDS: Final = 10.0
AGREED_MAX: Final = 20
"""How many of the newest epochs are read again, for what other web processes have observed."""
_COLUMNS: Final = tuple(Epoch.__dataclass_fields__)


class EpochKeeper:
    """Loads stored epochs, reads missing ones from the leader's log, stores new ones. Runs from `start` to `stop`."""

    def __init__(
        self,
        history: History,
        observer: MetadataObserver,
        client: ControllerClient,
        database: Database,
        cluster_id: Callable[[], str | None],
    ) -> None:
        self._history = history
        self._observer = observer
        self._client = client
        self._database = database
        self._cluster_id = cluster_id
        self._is_loaded = False
        self._read_after = -1  # number of snapshots loaded when the skipped part of the log was last read
        self._agree_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name="epoch-keeper")

    async def stop(self) -> None:
        """Stop the task, after storing the newest epoch as it is now."""
        await cancel_tasks(self._task)
        if self._is_loaded:
            await self._save(with_newest=True)

    async def _run(self) -> None:
        while True:
            cluster_id = self._cluster_id()
            if cluster_id is not None and self._observer.is_ready:
                await self._update(cluster_id)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _update(self, cluster_id: str) -> None:
        epochs = self._history.epochs
        try:
            if not self._is_loaded:
                epochs.remember(await self._database.read(load_epochs, cluster_id))
                self._is_loaded = True
                await self._save(with_newest=True)  # the database remembers the cluster by this row
            if self._read_after != self._history.snapshots_loaded:
                await self._fill(cluster_id)
        except (KafkaError, ConnectionError) as cause:  # retried in a second, like everything here
            log.info("older_epochs_not_read", extra={"cause": str(cause)})
        except DatabaseUnavailableError:
            return  # the database's outage log has it; retried in a second
        except SQLAlchemyError as cause:
            log.warning("kept_epochs_not_read", extra={"cause": str(cause)})
        if self._is_loaded:
            await self._save()
            await self._agree(cluster_id)

    async def _agree(self, cluster_id: str) -> None:
        """Read the newest epochs as the other web processes have stored them. On SQLite there are no others."""
        now = asyncio.get_running_loop().time()
        if now < self._agree_at or self._database.engine.dialect.name != "postgresql":
            return
        self._agree_at = now + AGREE_SECONDS
        try:
            self._history.epochs.agree(await self._database.read(load_epochs, cluster_id, AGREED_MAX))
        except SQLAlchemyError as cause:
            log.info("epochs_not_read", extra={"cause": str(cause)})

    async def _fill(self, cluster_id: str) -> None:
        """Read the part of the log that a snapshot skipped, once per snapshot and only while epochs are unknown."""
        loaded, epochs = self._history.snapshots_loaded, self._history.epochs
        if loaded:
            reader = EpochReader(self._client, cluster_id, self._observer.epoch)
            epochs.remember(await reader.read({epoch.epoch: epoch for epoch in epochs.epochs}))
        self._read_after = loaded

    async def _save(self, *, with_newest: bool = False) -> None:
        """Store new epochs. The newest epoch still grows, so it is stored only when the process ends."""
        cluster_id, epochs = self._cluster_id(), self._history.epochs
        unsaved = epochs.take_unsaved()
        wanted = [*unsaved, *(epochs.epochs[:1] if with_newest else ())]
        if not wanted or cluster_id is None:
            return
        try:
            await self._database.write(save_epochs, cluster_id, wanted)
        except (asyncio.CancelledError, DatabaseUnavailableError) as cause:
            epochs.not_saved(unsaved)
            if isinstance(cause, asyncio.CancelledError):
                raise  # `stop` stores them
        except SQLAlchemyError as cause:
            epochs.not_saved(unsaved)
            log.warning("epochs_not_kept", extra={"cause": str(cause)})


def load_epochs(session: OrmSession, cluster_id: str, most: int = EPOCHS_MAX) -> list[Epoch]:
    """Return the newest stored epochs of a cluster, newest first."""
    wanted = (
        select(QuorumEpoch).where(QuorumEpoch.cluster_id == cluster_id).order_by(QuorumEpoch.epoch.desc()).limit(most)
    )
    return [_epoch(row) for row in session.scalars(wanted)]


def save_epochs(session: OrmSession, cluster_id: str, epochs: list[Epoch]) -> None:
    """Store these epochs. Fields that are unknown here keep their stored value."""
    wanted = select(QuorumEpoch).where(
        QuorumEpoch.cluster_id == cluster_id, QuorumEpoch.epoch.in_([epoch.epoch for epoch in epochs])
    )
    kept = {row.epoch: row for row in session.scalars(wanted)}
    for epoch in {each.epoch: each for each in epochs}.values():
        row = kept.get(epoch.epoch)
        if row is None:
            row, whole = QuorumEpoch(cluster_id=cluster_id), epoch
            session.add(row)
        else:
            whole = epoch.completed_by(_epoch(row))
        for name in _COLUMNS:
            value = getattr(whole, name)
            setattr(row, name, list(value) if isinstance(value, tuple) else value)


def _epoch(row: QuorumEpoch) -> Epoch:
    return Epoch(
        epoch=row.epoch,
        leader_id=row.leader_id,
        start_offset=row.start_offset,
        timestamp_ms=row.timestamp_ms,
        voter_ids=tuple(row.voter_ids),
        granting_voter_ids=tuple(row.granting_voter_ids),
        last_offset=row.last_offset,
        last_timestamp_ms=row.last_timestamp_ms,
        leaderless_ms=row.leaderless_ms,
        lost_at_ms=row.lost_at_ms,
        lost_how=cast("LossKind | None", row.lost_how),
    )
