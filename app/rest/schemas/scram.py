"""Bodies and answers about SCRAM users."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource

ScramName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class ScramUserBody(ChangeBody):
    """A SCRAM user's new password. This process salts and hashes it; the cluster never receives it."""

    password: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    iterations: int = 8192


class ScramCredentialData(Answer):
    """One credential, without its secrets."""

    mechanism: str
    iterations: int


class ScramUserData(Resource):
    """A SCRAM user."""

    kind: Literal["KafkaScramUser"]
    user_name: str
    credentials: list[ScramCredentialData]


class ScramUserDataList(ListOf[ScramUserData]):
    """SCRAM users."""

    kind: Literal["KafkaScramUserList"]
