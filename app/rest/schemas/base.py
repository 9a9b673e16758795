"""Base classes and limits of request bodies and answers.

Request bodies are validated by these models. Answers are built as plain dicts, which is faster; OpenAPI is generated
from the answer models, and the tests validate every answer against them. Unknown members are refused in both.
"""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

T = TypeVar("T")
BROKERS_PER_PARTITION_MAX = 1_000
PARTITIONS_MAX = 10_000
CONFIGS_MAX = 1_000
ConfigName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
ConfigValue = Annotated[str, StringConstraints(max_length=65_536)]
TopicName = Annotated[str, StringConstraints(max_length=10_000)]
Name = Annotated[str, StringConstraints(max_length=32_767)]


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Metadata(Answer):
    """Address and name of one resource."""

    self: str
    resource_name: str | None


class ListMetadata(Answer):
    """Address of a list and of its next page, null for the last one."""

    self: str
    next: str | None


class Related(Answer):
    """A link to another resource."""

    related: str


class Validated(Answer):
    """Base of answers of changes. `validated` is present in dry runs only."""

    validated: Literal[True] | None = None


class ItemResult(Answer):
    """The result of one item of a change. The last three members are null where it succeeded, or would.

    `metadata_offset` is the offset of the change, null for what is not in the metadata log.
    """

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None


class Resource(Validated):
    """Members of every resource of a cluster."""

    metadata: Metadata
    cluster_id: str


class PlannedChangeData(Answer):
    """One planned change: the value before and after, null for none."""

    what: str
    before: object
    after: object


class DryRunData(Answer):
    """The dry run of a change that otherwise has no body. `not_checked` names what only the change itself can check."""

    kind: Literal["KafkaDryRun"]
    validated: Literal[True]
    changes: list[PlannedChangeData]
    not_checked: list[str]


class ListOf(Answer, Generic[T]):
    """Members of every list."""

    metadata: ListMetadata
    data: list[T]


class Body(BaseModel):
    """Base of all request bodies."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ChangeBody(Body):
    """Base of bodies of changes. `routing.dry_run` reads `validate_only` here and in the query."""

    validate_only: bool = False


class ListenerData(Answer):
    """A listener of a node."""

    name: str
    host: str
    port: int
