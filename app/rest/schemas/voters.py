"""Bodies and answers about changes of the voter set."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, Body, ChangeBody, ListenerData, Resource


class EndpointBody(Body):
    """A listener of a controller."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    host: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65_535)]


class AddVoterBody(ChangeBody):
    """An observer to add to the voters. `endpoints` default to those that it registered."""

    voter_id: Annotated[int, Field(ge=0, le=2**31 - 1)]
    directory_id: Annotated[str, StringConstraints(max_length=100)]
    endpoints: Annotated[tuple[EndpointBody, ...], Field(max_length=100, strict=False)] = ()


class VoterSetData(Answer):
    """A voter set and how many failures it tolerates. `_now` counts voters that lag or are silent as failed."""

    voter_ids: list[int]
    behind_voter_ids: list[int]
    majority: int
    failures_tolerated: int
    failures_tolerated_now: int


class CheckData(Answer):
    """The check of one precondition."""

    name: str
    is_met: bool
    detail: str


class VoterChangeData(Resource):
    """An added or removed voter. With `validate_only` nothing is changed and `offset` is null."""

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
