"""What requests carry. Unknown members and wrong types are refused (422), so that nothing is set by accident."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

BROKERS_PER_PARTITION_MAX = 1_000
PARTITIONS_MAX = 10_000
CONFIGS_MAX = 1_000

ConfigName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
ConfigValue = Annotated[str, StringConstraints(max_length=65_536)]
AccountName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Body(BaseModel):
    """Base of all request bodies."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ChangeBody(Body):
    """Base of what asks for a change. `validate_only` is read by `routing.dry_run`, with the one in the query."""

    validate_only: bool = False


class ConfigToCreate(Body):
    """A config of a topic that is being created."""

    name: ConfigName
    value: ConfigValue | None = None


class CreateTopicBody(ChangeBody):
    """CreateTopicRequestData of REST v3. `replicas_assignments` (partition → broker ids) wins over both counts."""

    topic_name: Annotated[str, StringConstraints(max_length=10_000)]
    partitions_count: int | None = None
    replication_factor: int | None = None
    replicas_assignments: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(pattern=r"^\d{1,7}$")],
                Annotated[tuple[int, ...], Field(max_length=BROKERS_PER_PARTITION_MAX, strict=False)],
            ],
            Field(max_length=PARTITIONS_MAX),
        ]
        | None
    ) = None
    configs: Annotated[tuple[ConfigToCreate, ...], Field(max_length=CONFIGS_MAX, strict=False)] = ()


class UpdatePartitionsCountBody(ChangeBody):
    """UpdatePartitionCountRequestData of REST v3, with `validate_only` added."""

    partitions_count: int


class UpdateConfigBody(ChangeBody):
    """UpdateTopicConfigRequestData and its kin."""

    value: ConfigValue | None = None


class AlterEntry(Body):
    """One change of an :alter; SET without an operation."""

    name: ConfigName
    value: ConfigValue | None = None
    operation: Literal["SET", "DELETE", "APPEND", "SUBTRACT"] | None = None


Entries = Annotated[tuple[AlterEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


class AlterBody(ChangeBody):
    """AlterConfigBatchRequestData: all entries or none."""

    data: Entries


class AlterTopicEntry(Body):
    """The changes of one topic."""

    topic_name: Annotated[str, StringConstraints(max_length=10_000)]
    configs: Entries


class AlterTopicsBody(ChangeBody):
    """Changes of several topics; each topic is all or none, and fails alone."""

    data: Annotated[tuple[AlterTopicEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


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


class CreateUserBody(ChangeBody):
    """A new user; without a password only a login link lets them in."""

    name: AccountName
    role: Literal["viewer", "editor", "admin"]
    password: Annotated[str, StringConstraints(max_length=1_000)] | None = None


class UpdateUserBody(ChangeBody):
    """Changes of a user; what is absent stays. `present_password` goes with a change of one's own password in a session."""

    role: Literal["viewer", "editor", "admin"] | None = None
    disabled: bool | None = None
    password: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    present_password: Annotated[str, StringConstraints(max_length=1_000)] = ""


class CreateTokenBody(ChangeBody):
    """A new API token; without scopes it may do all its role allows."""

    name: AccountName
    role: Literal["viewer", "editor", "admin"]
    scopes: Annotated[tuple[str, ...], Field(max_length=20, strict=False)] = ()
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None
