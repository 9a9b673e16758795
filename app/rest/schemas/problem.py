"""The body of an error."""

from pydantic import BaseModel, ConfigDict


class FieldProblemData(BaseModel):
    """A wrong member of a request: a JSON pointer into the body, or `?name` for a query parameter."""

    pointer: str
    message: str


class ProblemData(BaseModel):
    """An error: `error_code` and `message` of REST v3, the members of RFC 9457, and Kafka's name and number of it.

    Some errors have further members, which say what they are about.
    """

    model_config = ConfigDict(extra="allow")

    error_code: int
    message: str
    type: str
    title: str
    status: int
    detail: str
    instance: str
    kafka_error: str | None = None
    kafka_code: int | None = None
    retriable: bool | None = None
    errors: list[FieldProblemData] | None = None
