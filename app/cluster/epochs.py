"""Leaders of the quorum by epoch, from LeaderChange records of the log and from what this process observed.

The log says when a leader started, which voters granted it, and when it last wrote. It does not say why a leader ended.
A reason is given only when there is evidence: a voter set without the leader, its vote for the successor, or the way in
which it stopped answering this process.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from app.texts import phrase
from kraft_core.clients.metadata_observer import LeaderLoss, LossKind
from kraft_core.protocol.control_records import LeaderChangeMessage

EPOCHS_MAX: Final = 2_000
LONG_GAP_MS: Final = 2_000
"""A longer time without a leader is highlighted. Our followers need 250 ms to elect one, Apache's 2 to 4 s."""

EndReason = Literal[
    "leads", "removed", "resigned", "connection-closed", "silent", "voted-for-successor", "led-again", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch with its leader. Times are ms since 1970; -1 means unknown.

    From the log, by the leader's clock: `start_offset` and `timestamp_ms` of its LeaderChange record, the voters and
    the voters that granted it, `last_offset` and `last_timestamp_ms` of its newest committed record. Observed by this
    process, by its own clock: `leaderless_ms` from the loss of the previous leader to this leader's first response;
    `lost_at_ms` and `lost_how`, the end of this leader.
    """

    epoch: int
    leader_id: int
    start_offset: int
    timestamp_ms: int
    voter_ids: tuple[int, ...] = ()
    granting_voter_ids: tuple[int, ...] = ()
    last_offset: int = -1
    last_timestamp_ms: int = -1
    leaderless_ms: int = -1
    lost_at_ms: int = -1
    lost_how: LossKind | None = None

    @classmethod
    def of_record(cls, epoch: int, offset: int, timestamp_ms: int, record: LeaderChangeMessage) -> "Epoch":
        """Return the epoch that a LeaderChange record at `offset` starts."""
        return cls(
            epoch=epoch,
            leader_id=record.leader_id,
            start_offset=offset,
            timestamp_ms=timestamp_ms,
            voter_ids=tuple(voter.voter_id for voter in record.voters),
            granting_voter_ids=tuple(voter.voter_id for voter in record.granting_voters),
        )

    def completed_by(self, other: "Epoch") -> "Epoch":
        """Return this epoch with unknown fields taken from `other`, unless `other` has another leader."""
        if (other.leader_id, other.start_offset) != (self.leader_id, self.start_offset):
            return self
        is_newer = other.last_offset > self.last_offset
        return replace(
            self,
            last_offset=other.last_offset if is_newer else self.last_offset,
            last_timestamp_ms=other.last_timestamp_ms if is_newer else self.last_timestamp_ms,
            leaderless_ms=other.leaderless_ms if self.leaderless_ms < 0 else self.leaderless_ms,
            lost_at_ms=other.lost_at_ms if self.lost_how is None else self.lost_at_ms,
            lost_how=self.lost_how or other.lost_how,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """An epoch with what its neighbours show. Durations are in ms, None when unknown.

    `led_ms`: from its first record to its last (the newest one while it leads). `gap_ms`: from the previous leader's
    last record to this leader's first: how long nothing could be committed. At most 500 ms too long, since an idle
    leader writes every 500 ms. Two clocks, so only as exact as they agree. `leaderless_ms`: the same as this process
    observed it, by one clock. `epochs_before`: epochs since the previous leader that wrote nothing: elections without a
    winner.
    """

    epoch: Epoch
    previous_leader_id: int | None
    epochs_before: int | None
    led_ms: int | None
    gap_ms: int | None
    leaderless_ms: int | None
    ended: EndReason
    ended_detail: str

    @property
    def was_long_without(self) -> bool:
        """Whether it took longer than usual to elect this leader."""
        return max(self.gap_ms or 0, self.leaderless_ms or 0) >= LONG_GAP_MS


class EpochHistory:
    """The known epochs, bounded. Sources are the log, the observer, and the database."""

    def __init__(self, epochs_max: int = EPOCHS_MAX) -> None:
        self._epochs_max = epochs_max
        self._epochs: dict[int, Epoch] = {}
        self._last_written = (-1, -1, -1)  # epoch, offset and timestamp of the newest committed batch
        self._unsaved: set[int] = set()
        self._lost: LeaderLoss | None = None  # the last loss of a leader, until a leader is found
        self._waited: tuple[int, int] | None = None  # epoch, and ms without a leader before it

    def led(self, epoch: Epoch) -> None:
        """Add the epoch of a LeaderChange record. The log overrides other sources."""
        self._settle()
        if self._waited is not None and self._waited[0] == epoch.epoch:
            epoch = replace(epoch, leaderless_ms=self._waited[1])
        known = self._epochs.get(epoch.epoch)
        self._put(epoch if known is None else epoch.completed_by(known))

    def wrote(self, epoch: int, offset: int, timestamp_ms: int) -> None:
        """Note a committed batch. Called for every batch, so it does very little."""
        if epoch != self._last_written[0]:
            self._settle()
        self._last_written = (epoch, offset, timestamp_ms)

    def lost(self, parting: LeaderLoss) -> None:
        """Note that this process has lost the leader."""
        self._lost = parting
        known = self._epochs.get(parting.epoch)
        if known is not None and known.leader_id == parting.leader_id:
            self._put(replace(known, lost_at_ms=parting.at_ms, lost_how=parting.how))

    def found(self, epoch: int, at_ms: int) -> None:
        """Note that the leader of `epoch` responds. If it is the leader that was lost, its epoch has not ended."""
        lost, self._lost = self._lost, None
        known = self._epochs.get(epoch)
        if lost is None:
            return
        if lost.epoch == epoch:
            if known is not None:
                self._put(replace(known, lost_at_ms=-1, lost_how=None))
            return
        self._waited = (epoch, max(0, at_ms - lost.at_ms))
        if known is not None:
            self._put(replace(known, leaderless_ms=self._waited[1]))

    def remember(self, epochs: Iterable[Epoch]) -> None:
        """Add epochs from the database or from an older part of the log. They never replace known values."""
        for epoch in epochs:
            known = self._epochs.get(epoch.epoch)
            self._put(epoch if known is None else known.completed_by(epoch), is_new=known is None)

    def agree(self, stored: Iterable[Epoch]) -> None:
        """Take what the processes of the database have stored last about the epochs, so that all show the same.

        How the present leader will end is not taken: what is stored about it is from an end that did not come.
        """
        newest = max(self._epochs, default=-1)
        for epoch in stored:
            known = self._epochs.get(epoch.epoch)
            if known is None:
                self._put(epoch)
            elif epoch.epoch not in self._unsaved:
                blank = replace(known, leaderless_ms=-1, lost_at_ms=-1, lost_how=None)
                agreed = blank.completed_by(epoch).completed_by(known)
                if epoch.epoch == newest:
                    agreed = replace(agreed, lost_at_ms=known.lost_at_ms, lost_how=known.lost_how)
                self._epochs[epoch.epoch] = agreed

    def take_unsaved(self) -> list[Epoch]:
        """Return the epochs to store, and mark them as stored."""
        self._settle()
        unsaved, self._unsaved = sorted(self._unsaved), set()
        return [self._epochs[epoch] for epoch in unsaved if epoch in self._epochs]

    def not_saved(self, epochs: Iterable[Epoch]) -> None:
        """Mark epochs as not stored, after a failure."""
        self._unsaved.update(epoch.epoch for epoch in epochs)

    @property
    def epochs(self) -> list[Epoch]:
        """All known epochs, newest first."""
        self._settle()
        return [self._epochs[epoch] for epoch in sorted(self._epochs, reverse=True)]

    def until(self, offset: int, time_ms: int) -> "EpochHistory":
        """Return what the log said at an offset, whose time was `time_ms`: the last leader was leading then."""
        part = EpochHistory(self._epochs_max)
        epochs = [each for each in self.epochs if each.start_offset <= offset]
        if epochs:
            last_ms = max(time_ms, epochs[0].timestamp_ms)
            epochs[0] = replace(epochs[0], last_offset=offset, last_timestamp_ms=last_ms, lost_at_ms=-1, lost_how=None)
        part.remember(epochs)
        return part

    def leaderships(self) -> list[Leadership]:
        """All known epochs, newest first, each with what its neighbours show."""
        epochs = self.epochs
        return [
            _leadership(
                epoch,
                epochs[index + 1] if index + 1 < len(epochs) else None,
                epochs[index - 1] if index else None,
            )
            for index, epoch in enumerate(epochs)
        ]

    def _settle(self) -> None:
        """Write the newest batch into its epoch."""
        number, offset, timestamp_ms = self._last_written
        known = self._epochs.get(number)
        if known is not None and offset > known.last_offset:
            self._epochs[number] = replace(known, last_offset=offset, last_timestamp_ms=timestamp_ms)

    def _put(self, epoch: Epoch, *, is_new: bool = True) -> None:
        previous = max((number for number in self._epochs if number < epoch.epoch), default=None)
        if is_new and previous is not None:
            self._unsaved.add(previous)  # its last record is known now
        self._epochs[epoch.epoch] = epoch
        self._unsaved.add(epoch.epoch)
        while len(self._epochs) > self._epochs_max:
            del self._epochs[min(self._epochs)]


def _leadership(epoch: Epoch, previous: Epoch | None, following: Epoch | None) -> Leadership:
    # the log has no holes: an unknown leader wrote between two epochs unless one ends where the next starts
    follows = previous is not None and previous.last_offset + 1 == epoch.start_offset
    gap_ms = epochs_before = None
    if previous is not None and follows:
        gap_ms = max(0, epoch.timestamp_ms - previous.last_timestamp_ms)
        epochs_before = epoch.epoch - previous.epoch - 1
    is_followed = following is not None and epoch.last_offset + 1 == following.start_offset
    ended, detail = _ending(epoch, following if is_followed else None) if following is not None else ("leads", "")
    return Leadership(
        epoch=epoch,
        previous_leader_id=previous.leader_id if previous is not None and follows else None,
        epochs_before=epochs_before,
        led_ms=max(0, epoch.last_timestamp_ms - epoch.timestamp_ms) if epoch.last_offset >= 0 else None,
        gap_ms=gap_ms,
        leaderless_ms=epoch.leaderless_ms if epoch.leaderless_ms >= 0 else None,
        ended=ended,
        ended_detail=detail,
    )


def _ending(epoch: Epoch, following: Epoch | None) -> tuple[EndReason, str]:
    """Return the reason why an epoch ended, and a sentence. Without a following epoch, only observations count."""
    node = epoch.leader_id
    if following is not None and node not in following.voter_ids:
        return "removed", phrase("node %(id)s was removed from the voters", id=node)
    if epoch.lost_how == "resigned":
        return "resigned", phrase("node %(id)s kept running and announced that it no longer leads", id=node)
    has_led_again = following is not None and _led_again(epoch, following)
    if following is not None and node in following.granting_voter_ids and not has_led_again:
        successor = following.leader_id
        text = phrase("node %(id)s was alive: it voted for node %(successor)s", id=node, successor=successor)
        return "voted-for-successor", text
    if epoch.lost_how == "closed":
        text = phrase("node %(id)s closed its connections: it was stopped or it failed", id=node)
        return "connection-closed", _then_led_again(text) if has_led_again else text
    if epoch.lost_how == "silent":
        text = phrase("node %(id)s stopped answering: paused, overloaded or cut off", id=node)
        return "silent", _then_led_again(text) if has_led_again else text
    if has_led_again:
        text = phrase("node %(id)s led again: it was restarted, or had lost its majority for a while", id=node)
        return "led-again", text
    return "unknown", phrase("the log does not say why, and this process did not observe it")


def _then_led_again(text: str) -> str:
    return phrase("%(what)s, then led again", what=text)


def _led_again(epoch: Epoch, following: Epoch) -> bool:
    return epoch.leader_id == following.leader_id
