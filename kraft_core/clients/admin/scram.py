"""Admin's operations on SCRAM credentials. Source: KafkaAdminClient, ScramCredentialInfo of Kafka 4.3.1; KIP-554."""

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    RequestContext,
    Results,
    error_of,
    single,
)
from kraft_core.image.scram_mechanism import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BITS,
    SCRAM_MECHANISMS_BY_TYPE,
    ScramMechanism,
    salt_of,
)
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
    DescribeUserScramCredentialsResponse,
)


class ScramCredentialInfo(NamedTuple):
    """A mechanism that a user has a password for, and its iterations."""

    mechanism: str
    iterations: int


class UserScramCredentialDeletion(NamedTuple):
    """A user's mechanism to be removed."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A user's password for a mechanism. It is sent salted and hashed.

    Raises ValueError for iterations that no broker takes, before they cost time.
    """

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = MIN_ITERATIONS

    def __post_init__(self) -> None:
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations {self.iterations} is not between {MIN_ITERATIONS} and {MAX_ITERATIONS}")


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


class ScramCalls(AdminCalls):
    """SCRAM credentials."""

    async def describe_user_scram_credentials(
        self, users: Collection[str] | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return the mechanisms of users, by user; None asks for all users. Raises KafkaError if nobody may know."""
        request = DescribeUserScramCredentialsRequest(
            users=None
            if users is None
            else tuple(DescribeUserScramCredentialsRequestUserName(name=user) for user in users)
        )

        def read(
            answer: DescribeUserScramCredentialsResponse,
        ) -> Results[str, tuple[ScramCredentialInfo, ...]] | KafkaError:
            return error_of(answer.error_code, answer.error_message) or Results(
                {
                    each.user: error_of(each.error_code, each.error_message)
                    or tuple(
                        ScramCredentialInfo(_mechanism_name(info.mechanism), info.iterations)
                        for info in each.credential_infos
                    )
                    for each in answer.results
                }
            )

        if users is not None and not users:  # brokers take an empty list for all users
            return Results()
        return await self.run_single(single(request, read))

    async def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialAlteration]
    ) -> Results[str, None]:
        """Set and remove passwords, by user: all changes of a user are made or none."""
        by_user: dict[str, list[UserScramCredentialAlteration]] = {}
        for each in alterations:
            by_user.setdefault(each.user, []).append(each)

        def build(context: RequestContext[str]) -> AlterUserScramCredentialsRequest:
            return alter_user_scram_credentials_request(each for user in context.keys for each in by_user[user])

        def read(answer: AlterUserScramCredentialsResponse, _context: object) -> dict[str, KafkaError | None]:
            return {each.user: error_of(each.error_code, each.error_message) for each in answer.results}

        return await self.run(
            AdminCall(
                request=AlterUserScramCredentialsRequest,
                keys=by_user,
                target=lambda _: CONTROLLER,
                build=build,
                read=read,
            )
        )


def alter_user_scram_credentials_request(
    alterations: Iterable[UserScramCredentialAlteration],
) -> AlterUserScramCredentialsRequest:
    """Return the request that sets and removes passwords. Passwords are hashed here, which takes its time."""
    wanted = tuple(alterations)
    return AlterUserScramCredentialsRequest(
        deletions=tuple(
            AlterUserScramCredentialsRequestScramCredentialDeletion(name=each.user, mechanism=each.mechanism.type)
            for each in wanted
            if isinstance(each, UserScramCredentialDeletion)
        ),
        upsertions=tuple(_salted(each) for each in wanted if isinstance(each, UserScramCredentialUpsertion)),
    )


def _mechanism_name(number: int) -> str:
    known = SCRAM_MECHANISMS_BY_TYPE.get(number)
    return known.name if known is not None else f"UNKNOWN({number})"


def _salted(
    wanted: UserScramCredentialUpsertion,
) -> AlterUserScramCredentialsRequestScramCredentialUpsertion:
    salt = salt_of(secrets.randbits(SALT_BITS))
    return AlterUserScramCredentialsRequestScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism.type,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=wanted.mechanism.salted_password(wanted.password, salt, wanted.iterations),
    )
