"""Bodies and answers about changes of the voter set."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, Body, ChangeBody, ListenerData, Resource


class EndpointBody(Body):
    """Where a controller listens."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    host: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65_535)]


class AddVoterBody(ChangeBody):
    """An observer that shall be a voter; without `endpoints` those it registered are taken."""

    voter_id: Annotated[int, Field(ge=0, le=2**31 - 1)]
    directory_id: Annotated[str, StringConstraints(max_length=100)]
    endpoints: Annotated[tuple[EndpointBody, ...], Field(max_length=100, strict=False)] = ()


class VoterSetData(Answer):
    """A voter set and what it withstands; `_now` counts those that are behind or silent as failed."""

    voter_ids: list[int]
    behind_voter_ids: list[int]
    majority: int
    failures_tolerated: int
    failures_tolerated_now: int


class CheckData(Answer):
    """A precondition, whether it holds, and what was found."""

    name: str
    is_met: bool
    detail: str


class VoterChangeData(Resource):
    """A voter added or removed, or, with `validate_only`, what that would do; `offset` is null then."""

    kind: Literal["KafkaQuorumVoterChange"]
    operation: Literal["ADD", "REMOVE"]
    voter_id: int
    directory_id: str
    endpoints: list[ListenerData]
    before: VoterSetData
    after: VoterSetData
    checks: list[CheckData]
    warnings: list[str]
    offset: int | None
