"""Changes of several items in one request, with a result for each: 200 if all succeeded, 207 if some were refused."""

from typing import Any, Final

from pydantic import BaseModel

from app.http.errors import of_connection, of_kafka
from kraft_core.protocol.errors import KafkaError

REFUSALS: Final = (KafkaError, ConnectionError)
"""What is the result of an item; anything else fails the request."""


def outcomes(model: type[BaseModel], done: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of both answers. `done` is what the change does, as in "deleted"."""
    return {
        200: {"model": model, "description": f"all were {done}, or would be with `validate_only`"},
        207: {"model": model, "description": "some were refused"},
    }


def item_result(members: dict[str, Any], made: int | Exception | None) -> dict[str, Any]:
    """Return the result of an item, from the offset of its change or its error, one of REFUSALS."""
    if not isinstance(made, Exception):
        return {**members, "metadata_offset": made, "error_code": None, "kafka_error": None, "message": None}
    error, extra = of_kafka(made, v3=False) if isinstance(made, KafkaError) else of_connection(_connection(made))
    return {
        **members,
        "metadata_offset": None,
        "error_code": error.error_code,
        "kafka_error": extra.get("kafka_error"),
        "message": error.message,
    }


def _connection(error: Exception) -> ConnectionError:
    assert isinstance(error, ConnectionError), "there is no other refusal"
    return error
