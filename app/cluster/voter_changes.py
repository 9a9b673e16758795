"""Plans of voter changes: the effect of adding or removing a voter, and the preconditions. Nothing is sent.

Pure functions of the leader's DescribeQuorum response, the voter set of the log and the candidate's registration.
KIP-853 leaves these considerations to the operator; the leader itself refuses only what docs/protocol.md lists under
"Voter changes". A failed check that the leader would refuse as well names the leader's error.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.cluster.quorum import Endpoint, Quorum, Replica
from app.cluster.quorum_text import endpoint_texts
from app.texts import joined, phrase, phrases, sentences
from kraft_core.image.metadata_image import ControllerRegistration
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.uuids import uuid_to_text

KRAFT_VERSION: Final = "kraft.version"


@dataclass(frozen=True, slots=True)
class Check:
    """One precondition. `name` is for programs; `detail` is a sentence about what was found, met or not.

    `error`: the leader's error when it is not met, None when the leader would make the change or the outcome is open.
    """

    name: str
    is_met: bool
    detail: str
    error: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class FaultTolerance:
    """A voter set and the failures it tolerates. `behind`: voters that are not caught up, so do not count now."""

    voter_ids: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def majority(self) -> int:
        """The number of voters that a decision needs."""
        return len(self.voter_ids) // 2 + 1

    @property
    def failures_tolerated(self) -> int:
        """How many voters may fail when all are caught up; 0 without voters."""
        return max(0, len(self.voter_ids) - self.majority)

    @property
    def failures_tolerated_now(self) -> int:
        """How many more voters may fail now, when those that are behind count as failed."""
        return max(0, self.caught_up - self.majority)

    @property
    def caught_up(self) -> int:
        """The number of voters that are caught up."""
        return len(self.voter_ids) - len(self.behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChange:
    """The addition or removal of one voter: its effect, preconditions and warnings.

    `offset`: the offset of the new voter set in the log, None before the change is made.
    """

    operation: Literal["ADD", "REMOVE"]
    voter_id: int
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    before: FaultTolerance
    after: FaultTolerance
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    offset: int | None = None

    @property
    def failed(self) -> tuple[Check, ...]:
        """The preconditions that do not hold. Empty when the change may be made."""
        return tuple(check for check in self.checks if not check.is_met)


class VoterChangeRefused(Exception):  # noqa: N818 - what happened, not what class it is
    """Preconditions do not hold, so nothing was sent to the leader. `change.failed` has them."""

    def __init__(self, change: VoterChange) -> None:
        super().__init__(sentences(check.detail for check in change.failed))
        self.change = change

    @property
    def error(self) -> ErrorCode | None:
        """The leader's error, None when the leader would not refuse for sure."""
        return next((check.error for check in self.change.failed if check.error is not None), None)


def plan_add(
    quorum: Quorum,
    registration: ControllerRegistration | None,
    voter_id: int,
    directory_id: uuid.UUID,
    endpoints: tuple[Endpoint, ...] = (),
) -> VoterChange:
    """Plan an addition.

    `registration`: the candidate's registration in the log; its listeners are used when `endpoints` is empty.
    """
    if not endpoints and registration is not None:
        endpoints = tuple((at.name, at.host, at.port) for at in registration.listeners)
    candidate = _find(quorum.observers, voter_id, directory_id)
    before = _fault_tolerance(quorum.voters)
    after = _fault_tolerance(
        [*(voter for voter in quorum.voters if voter.id != voter_id), *([candidate] if candidate else [])]
    )
    if candidate is None:
        after = FaultTolerance(tuple(sorted({*after.voter_ids, voter_id})), tuple(sorted({*after.behind, voter_id})))
    checks = _common_checks(quorum)
    if quorum.is_live:
        checks += (
            _not_yet_a_voter(quorum, voter_id, directory_id),
            *_candidate_is_ready(quorum, candidate, voter_id, directory_id),
            _reachable(quorum, endpoints, voter_id),
            *_supported(registration),
            _majority_remains(after),
        )
    return VoterChange(
        operation="ADD",
        voter_id=voter_id,
        directory_id=directory_id,
        endpoints=endpoints,
        before=before,
        after=after,
        checks=checks,
        warnings=(*_general_warnings(before, after),),
    )


def plan_remove(quorum: Quorum, voter_id: int, directory_id: uuid.UUID) -> VoterChange:
    """Plan a removal."""
    voter = _find(quorum.voters, voter_id, directory_id)
    before = _fault_tolerance(quorum.voters)
    after = _fault_tolerance([each for each in quorum.voters if each is not voter])
    checks = _common_checks(quorum)
    if quorum.is_live:
        checks += (_is_a_voter(quorum, voter, voter_id, directory_id),)
        if voter is not None:
            checks += (_not_the_last(after), _majority_remains(after)) if after.voter_ids else (_not_the_last(after),)
    warnings = list(_general_warnings(before, after))
    if voter is not None and voter.is_leader:
        warnings.append(
            phrase(
                "Node %(id)s leads. It resigns once its removal is committed; changes wait until another voter leads.",
                id=voter_id,
            )
        )
    warnings.append(
        phrase(
            "Node %(id)s continues as an observer if it runs. With `controller.quorum.auto.join.enable=true` in its"
            " settings it becomes a voter again within seconds; turn that off first.",
            id=voter_id,
        )
    )
    return VoterChange(
        operation="REMOVE",
        voter_id=voter_id,
        directory_id=directory_id,
        endpoints=() if voter is None else voter.endpoints,
        before=before,
        after=after,
        checks=checks,
        warnings=tuple(warnings),
    )


def _fault_tolerance(replicas: Sequence[Replica]) -> FaultTolerance:
    return FaultTolerance(
        tuple(sorted(replica.id for replica in replicas)),
        tuple(sorted(replica.id for replica in replicas if not replica.is_caught_up)),
    )


def _find(replicas: Sequence[Replica], voter_id: int, directory_id: uuid.UUID) -> Replica | None:
    return next((each for each in replicas if (each.id, each.directory_id) == (voter_id, directory_id)), None)


def _ids(ids: Sequence[int]) -> str:
    return joined(", ", map(str, ids)) or phrase("none")


# checks of every change


def _common_checks(quorum: Quorum) -> tuple[Check, ...]:
    if not quorum.is_live:
        detail = phrase("The leader does not answer: %(error)s.", error=quorum.error)
        return (Check("leader-answers", False, detail, ErrorCode.NOT_CONTROLLER),)
    leads = phrase("Node %(id)s leads in epoch %(epoch)s and answers.", id=quorum.leader_id, epoch=quorum.leader_epoch)
    return (
        Check("leader-answers", True, leads),
        _dynamic(quorum),
        _no_change_under_way(quorum),
    )


def _dynamic(quorum: Quorum) -> Check:
    if quorum.kraft_version >= 1:
        text = phrase("kraft.version is %(level)s: the voters are in the log.", level=quorum.kraft_version)
        return Check(KRAFT_VERSION, True, text)
    return Check(
        KRAFT_VERSION,
        False,
        phrase(
            "kraft.version is 0: the voters are in the settings of every node (controller.quorum.voters). Raise it"
            " to 1 first, e.g. with kafka-features upgrade --feature kraft.version=1."
        ),
        ErrorCode.UNSUPPORTED_VERSION,
    )


def _no_change_under_way(quorum: Quorum) -> Check:
    name = "no-change-under-way"
    if quorum.high_watermark < 0:
        return Check(name, False, phrase("The leader has not committed a record of its epoch yet."))
    if quorum.is_change_pending:
        return Check(name, False, phrase("Another change is pending: %(change)s.", change=pending_change_text(quorum)))
    if quorum.committed_voters is None and quorum.kraft_version >= 1:
        return Check(name, True, phrase("No other change is visible; the leader refuses a second one."))
    return Check(name, True, phrase("No other change is pending: the leader counts the committed voters."))


def pending_change_text(quorum: Quorum) -> str:
    """Describe the pending change from the voter sets that differ."""
    counted = sorted(voter.id for voter in quorum.voters)
    committed = sorted(voter_id for voter_id, _ in quorum.committed_voters or ())
    return phrase(
        "the leader counts voters %(counted)s, committed are %(committed)s",
        counted=_ids(counted),
        committed=_ids(committed),
    )


def _majority_remains(after: FaultTolerance) -> Check:
    name = "majority-afterwards"
    numbers = {"caught_up": after.caught_up, "count": len(after.voter_ids), "majority": after.majority}
    if after.caught_up >= after.majority:
        text = phrase(
            "Afterwards %(caught_up)s of %(count)s voters are caught up, a decision needs %(majority)s.", **numbers
        )
        return Check(name, True, text)
    text = phrase(
        "The quorum would lose its majority: afterwards %(caught_up)s of %(count)s voters are caught up, a decision"
        " needs %(majority)s. Behind or silent: %(behind)s.",
        **numbers,
        behind=_ids(after.behind),
    )
    return Check(name, False, text)


def _general_warnings(before: FaultTolerance, after: FaultTolerance) -> list[str]:
    found: list[str] = []
    count = len(after.voter_ids)
    if count > 1 and count % 2 == 0:
        found.append(
            phrases(
                "%(voters)s voters tolerate %(count)s failure, no more than %(fewer)s would, and a decision needs one"
                " more. Prefer an odd number of voters.",
                "%(voters)s voters tolerate %(count)s failures, no more than %(fewer)s would, and a decision needs one"
                " more. Prefer an odd number of voters.",
                after.failures_tolerated,
                voters=count,
                fewer=count - 1,
            )
        )
    if count == 1:
        found.append(phrase("A single voter tolerates no failure."))
    elif after.failures_tolerated < before.failures_tolerated:
        found.append(
            phrase(
                "Fewer failures are tolerated than now: %(after)s instead of %(before)s.",
                after=after.failures_tolerated,
                before=before.failures_tolerated,
            )
        )
    if after.behind and after.caught_up >= after.majority:
        found.append(phrase("Behind or silent, so they do not count now: %(ids)s.", ids=_ids(after.behind)))
    return found


# checks of an addition


def _not_yet_a_voter(quorum: Quorum, voter_id: int, directory_id: uuid.UUID) -> Check:
    name = "not-yet-a-voter"
    same = next((voter for voter in quorum.voters if voter.id == voter_id), None)
    if same is None:
        return Check(name, True, phrase("No voter has the id %(id)s.", id=voter_id))
    if same.directory_id == directory_id:
        return Check(name, False, phrase("Node %(id)s is a voter already.", id=voter_id), ErrorCode.DUPLICATE_VOTER)
    return Check(
        name,
        False,
        phrase(
            "Node %(id)s is a voter already, with directory %(directory)s: if that disk is gone, remove that voter"
            " first.",
            id=voter_id,
            directory=uuid_to_text(same.directory_id),
        ),
        ErrorCode.DUPLICATE_VOTER,
    )


def _candidate_is_ready(
    quorum: Quorum, candidate: Replica | None, voter_id: int, directory_id: uuid.UUID
) -> tuple[Check, ...]:
    observed = "observed"
    if candidate is None:
        others = [each.directory_id for each in quorum.observers if each.id == voter_id]
        key = {"id": voter_id, "directory": uuid_to_text(directory_id)}
        text = phrase("The leader knows no observer %(id)s with directory %(directory)s.", **key)
        if others:
            text = phrase(
                "The leader knows no observer %(id)s with directory %(directory)s."
                " It fetches with directory %(other)s.",
                **key,
                other=uuid_to_text(others[0]),
            )
        return (Check(observed, False, text),)
    seen_check = Check(observed, True, phrase("Node %(id)s fetches as an observer.", id=voter_id))
    return seen_check, Check("caught-up", candidate.is_caught_up, _lag_text(candidate))


def _lag_text(candidate: Replica) -> str:
    lag = {"id": candidate.id, "lag": candidate.lag}
    if candidate.is_caught_up:
        if not candidate.lag:
            return phrase("Node %(id)s is caught up, with no record missing.", id=candidate.id)
        return phrase("Node %(id)s is caught up, %(lag)s records behind at this moment.", **lag)
    if candidate.lag is None:
        return phrase(
            "Node %(id)s is not caught up: its lag is unknown. As a voter it would delay every decision that needs it.",
            id=candidate.id,
        )
    return phrase(
        "Node %(id)s is not caught up: it is %(lag)s records behind. As a voter it would delay every decision that"
        " needs it.",
        **lag,
    )


def _reachable(quorum: Quorum, endpoints: tuple[Endpoint, ...], voter_id: int) -> Check:
    name = "endpoints"
    leader = next((voter for voter in quorum.voters if voter.is_leader), None)
    wanted = leader.endpoints[0][0] if leader is not None and leader.endpoints else None
    shown = ", ".join(endpoint_texts(endpoints))
    if not endpoints:
        text = phrase(
            "The endpoints of node %(id)s are unknown: it is not registered as a controller. Specify them.", id=voter_id
        )
        return Check(name, False, text, ErrorCode.INVALID_REQUEST)
    if wanted is not None and wanted not in {listener for listener, _, _ in endpoints}:
        text = phrase(
            "Voters need the leader's listener %(listener)s; node %(id)s has %(endpoints)s.",
            listener=wanted,
            id=voter_id,
            endpoints=shown,
        )
        return Check(name, False, text, ErrorCode.INVALID_REQUEST)
    text = phrase(
        "Node %(id)s listens at %(endpoints)s. The leader contacts it before adding it.", id=voter_id, endpoints=shown
    )
    return Check(name, True, text)


def _supported(registration: ControllerRegistration | None) -> tuple[Check, ...]:
    """Check that the candidate's software supports voter changes, if its registration says so."""
    supported = registration.supported_features.get(KRAFT_VERSION) if registration is not None else None
    if supported is None:
        return ()
    found = phrase(
        "Its software supports kraft.version %(least)s to %(most)s.", least=supported.min, most=supported.max
    )
    return (Check("supports-kraft-version", supported.contains(1), found, ErrorCode.INVALID_REQUEST),)


# checks of a removal


def _is_a_voter(quorum: Quorum, voter: Replica | None, voter_id: int, directory_id: uuid.UUID) -> Check:
    name = "is-a-voter"
    if voter is not None:
        return Check(name, True, phrase("Node %(id)s is a voter with this directory.", id=voter_id))
    same = next((each for each in quorum.voters if each.id == voter_id), None)
    if same is None:
        return Check(name, False, phrase("Node %(id)s is not a voter.", id=voter_id), ErrorCode.VOTER_NOT_FOUND)
    text = phrase(
        "Voter %(id)s has directory %(directory)s, not %(wanted)s.",
        id=voter_id,
        directory=uuid_to_text(same.directory_id),
        wanted=uuid_to_text(directory_id),
    )
    return Check(name, False, text, ErrorCode.VOTER_NOT_FOUND)


def _not_the_last(after: FaultTolerance) -> Check:
    if after.voter_ids:
        return Check("not-the-last", True, phrase("Voters remain: %(ids)s.", ids=_ids(after.voter_ids)))
    text = phrase("It is the last voter; a quorum needs at least one.")
    return Check("not-the-last", False, text, ErrorCode.VOTER_NOT_FOUND)
