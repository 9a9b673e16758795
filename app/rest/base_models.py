"""What the answers of all resources share: address, links, lists, and the marks of a dry run; see models."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Metadata(Answer):
    """Address and name of one resource."""

    self: str
    resource_name: str | None


class ListMetadata(Answer):
    """Address of a list, and of its next page."""

    self: str
    next: str | None


class Related(Answer):
    """A link in place of the thing."""

    related: str


class Validated(Answer):
    """Base of what a dry run may answer: `validated` is there in its answer alone."""

    validated: Literal[True] | None = None


class Resource(Validated):
    """Members that every resource of a cluster has."""

    metadata: Metadata
    cluster_id: str


class PlannedChangeData(Answer):
    """One thing a change would do: what it has now and would have afterwards, null for nothing."""

    what: str
    before: object
    after: object


class DryRunData(Answer):
    """What a change would do that answers nothing when it is made. `not_checked`: what only the change itself can tell."""

    kind: Literal["KafkaDryRun"]
    validated: Literal[True]
    changes: list[PlannedChangeData]
    not_checked: list[str]


class ListOf(Answer, Generic[T]):
    """Members that every list has."""

    metadata: ListMetadata
    data: list[T]
