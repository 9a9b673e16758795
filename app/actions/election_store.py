"""Elections of very many partitions, and their rows in the database.

A row is written by the process that holds the election; every other one reads it.
"""

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, Literal

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session as OrmSession

from app.cluster.partitions import Outcome, Partition
from app.db.base import utc_now
from app.db.locks import Lock, hold
from app.db.models import ElectionRefusals, LongElectionRecord
from app.texts import phrase
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.protocol.errors import ErrorCode, KafkaError

KEPT: Final = 5
"""The most elections that are remembered."""
LEASE_SECONDS: Final = 30
"""How long an election outlives the last sign of its process. The clocks of web processes must differ by less."""

ElectionState = Literal["running", "done", "stopped"]


@dataclass(slots=True, kw_only=True)
class LongElection:
    """An election and what has become of it so far.

    The first `done` of its sorted partitions have been answered; `failures` has those of them that were refused.
    `failures_saved` of them are in the database. `is_final`: no process continues it.
    `offset`: of the newest change. `waits_for`: why the present batch is repeated. `stopped_by`: why the rest was not
    elected. `leaders_before`: how many partitions each broker led when it began.
    """

    id: str
    election: ElectionType
    by: str
    partitions: Sequence[Partition]
    leaders_before: Mapping[int, int]
    begun_at: dt.datetime
    ended_at: dt.datetime | None = None
    done: int = 0
    failures: dict[Partition, KafkaError] = field(default_factory=dict)
    offset: int | None = None
    waits_for: str = ""
    stopped_by: str = ""
    failures_saved: int = 0
    is_final: bool = False

    @property
    def state(self) -> ElectionState:
        """Whether it is being held, has ended, or was stopped before its end."""
        if self.ended_at is None:
            return "running"
        return "stopped" if self.stopped_by else "done"

    @property
    def elected(self) -> int:
        """How many of its partitions have the leader that was asked for."""
        return self.done - len(self.failures)

    def outcome(self, key: Partition) -> tuple[str, KafkaError | None]:
        """Return the result of one of its partitions: `refused` with the error, `elected` or `pending`."""
        error = self.failures.get(key)
        if error is not None:
            return "refused", error
        return "elected" if bisect_left(self.partitions, key) < self.done else "pending", None

    def refused_first(self) -> list[Partition]:
        """Return its partitions, those that were refused before the others."""
        return [*self.failures, *(key for key in self.partitions if key not in self.failures)]

    def add(self, some: Sequence[Partition], done: Outcome) -> None:
        """Take the answer to the next batch."""
        refused = {key: each for key, each in done.failures.items() if each.code is not ErrorCode.ELECTION_NOT_NEEDED}
        self.failures |= refused
        self.done += len(some)
        self.offset = self.offset if done.offset is None else done.offset


def begin(session: OrmSession, begun: LongElection) -> str | None:
    """Store an election that begins, and forget old ones. While another one is being held, return its id instead."""
    hold(session, Lock.ELECTIONS)
    row = LongElectionRecord
    running = select(row.id).where(row.ended_at.is_(None), row.lease_until >= begun.begun_at)
    if (running_id := session.scalar(running.limit(1))) is not None:
        return running_id
    kept = session.scalars(select(row.id).order_by(row.begun_at.desc()).limit(KEPT - 1)).all()
    session.execute(delete(row).where(row.id.not_in(kept)))
    session.add(
        LongElectionRecord(
            id=begun.id,
            election=begun.election.name,
            by=begun.by,
            partitions=_by_topic(begun.partitions),
            leaders_before={str(broker): leaders for broker, leaders in begun.leaders_before.items()},
            begun_at=begun.begun_at,
            lease_until=_lease_end(),
        )
    )
    return None


def save(session: OrmSession, held: LongElection, refused: Iterable[tuple[Partition, KafkaError]]) -> None:
    """Store the progress of an election, with partitions that were refused since the last time."""
    values = {
        "done": held.done,
        "metadata_offset": held.offset,
        "waits_for": str(held.waits_for),
        "stopped_by": str(held.stopped_by),
        "ended_at": held.ended_at,
        "lease_until": _lease_end(),
    }
    session.execute(update(LongElectionRecord).where(LongElectionRecord.id == held.id).values(values))
    lines = [[*key, error.code.name, error.message] for key, error in refused]
    if lines:
        session.add(ElectionRefusals(election_id=held.id, done=held.done, refused=lines))


def newest_id(session: OrmSession) -> str | None:
    """Return the id of the election that was begun last, None if there is none."""
    return session.scalar(select(LongElectionRecord.id).order_by(LongElectionRecord.begun_at.desc()).limit(1))


def load(session: OrmSession, election_id: str, seen: LongElection | None, now: dt.datetime) -> LongElection | None:
    """Return an election as its process last stored it, None if it is not known. `seen`: as it was read before."""
    row = LongElectionRecord
    progress = (row.done, row.metadata_offset, row.waits_for, row.stopped_by, row.ended_at, row.lease_until)
    found = session.execute(select(*progress).where(row.id == election_id)).one_or_none()
    if found is None:
        return None
    done, offset, waits_for, stopped_by, ended_at, lease_until = found
    known = seen or _begun(session.scalars(select(row).where(row.id == election_id)).one())
    new = ElectionRefusals
    batches = select(new.refused).where(new.election_id == election_id, new.done > known.done, new.done <= done)
    refused = [line for lines in session.scalars(batches.order_by(new.done)) for line in lines]
    is_final = ended_at is not None
    if not is_final and lease_until < now:
        ended_at, waits_for = lease_until, ""
        stopped_by = phrase("The web process that held the election has ended.")
    return replace(
        known,
        done=done,
        offset=offset,
        waits_for=waits_for,
        stopped_by=stopped_by,
        ended_at=ended_at,
        is_final=is_final,
        failures=known.failures
        | {(topic, number): KafkaError(ErrorCode[code], text) for topic, number, code, text in refused},
    )


def _begun(row: LongElectionRecord) -> LongElection:
    return LongElection(
        id=row.id,
        election=ElectionType[row.election],
        by=row.by,
        partitions=[(topic, number) for topic, numbers in row.partitions for number in numbers],
        leaders_before={int(broker): leaders for broker, leaders in row.leaders_before.items()},
        begun_at=row.begun_at,
    )


def _by_topic(partitions: Sequence[Partition]) -> list[Any]:
    return [[topic, [number for _, number in some]] for topic, some in groupby(partitions, lambda each: each[0])]


def _lease_end() -> dt.datetime:
    return utc_now() + dt.timedelta(seconds=LEASE_SECONDS)
