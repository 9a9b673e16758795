"""JSON without ambiguity: no repeated keys, NaN, numbers beyond 64 bits, excessive depth; one document or several."""

import json
import re
from typing import Any, Final

from app.http.errors import BadRequestError

INT64: Final = 1 << 63
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def json_document(body: bytes) -> Any:
    """Return the one document of a body. Raises BadRequestError."""
    return _read(body, several=False)[0]


def json_documents(body: bytes) -> list[Any]:
    """Return the documents of a body, one after the other with or without space between. Raises BadRequestError."""
    return _read(body, several=True)


def _read(body: bytes, *, several: bool) -> list[Any]:
    try:
        text = body.decode()
        if not several:
            return [_DECODER.decode(text)]
        at, found = _end_of_space(text, 0), []
        while at < len(text):
            document, at = _DECODER.raw_decode(text, at)
            found.append(document)
            at = _end_of_space(text, at)
    except RecursionError:
        raise BadRequestError("The JSON is nested too deeply.") from None
    except UnicodeDecodeError:
        raise BadRequestError("The body is not UTF-8.") from None
    except ValueError as wrong:
        raise BadRequestError(f"The body is not valid JSON: {wrong}") from None
    return found


def _end_of_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None, "the pattern also matches nothing"
    return match.end()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return made


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _int64(text: str) -> int:
    if len(text) > 20 or not -INT64 <= int(text) < INT64:
        raise ValueError("a number exceeds 64 bits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError("a number is too large")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_int64, parse_float=_finite
)
