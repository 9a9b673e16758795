"""Bodies and answers about SCRAM users."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource

ScramName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class ScramUserBody(ChangeBody):
    """A SCRAM user's new password. It is salted and hashed here; the cluster never sees it."""

    password: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    iterations: int = 8192


class ScramCredentialData(Answer):
    """What may be told of one password."""

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
