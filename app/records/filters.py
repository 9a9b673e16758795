"""Which records are shown: filters on keys, values, headers and members of JSON.

Regular expressions are RE2's: they take time linear in the text, whatever the pattern, and have neither
back-references nor look-around.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import re2

from app.texts import phrase
from kraft_core.clients.consumer.consumer_record import Headers

Field = Literal["key", "value", "header"]
Operator = Literal["contains", "equals", "matches"]

FIELDS: Final[tuple[Field, ...]] = ("key", "value", "header")
OPERATORS: Final[tuple[Operator, ...]] = ("contains", "equals", "matches")
PATTERN_MAX: Final = 1_000
ALLOWED: Final = phrase(
    "allowed are key=TEXT, value=TEXT, header:NAME=TEXT and value:MEMBER=TEXT for text that is contained, "
    "the same with == for equal text and with ~ for a regular expression"
)
_SIGNS: Final[dict[str, Operator]] = {"=": "contains", "==": "equals", "~": "matches"}
_FILTER: Final = re.compile(r"(key|value|header)(?::([^=~]+))?(==|=|~)(.+)", re.DOTALL)


class FilterTextError(ValueError):
    """A filter is invalid; the message has it and what is allowed."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter: where, how, and the wanted text or pattern.

    `name` is the name of a header, or a path to a member of JSON in a key or value, as `customer.lines.0.id`; "" is the
    whole key or value. Nulls, missing headers and missing members pass no filter; of several headers with the name, one
    match suffices. Members other than strings are compared as JSON writes them. Raises FilterTextError.
    """

    field: Field
    operator: Operator
    text: str
    name: str = ""

    def __post_init__(self) -> None:
        if self.field == "header" and not self.name:
            raise FilterTextError(
                phrase("invalid filter 'header': the name of the header is missing; %(allowed)s", allowed=ALLOWED)
            )
        self.test()

    def test(self) -> Callable[[bytes], bool]:
        """Return the test of one text."""
        wanted = self.text.encode(errors="surrogateescape")
        if self.operator == "contains":
            return lambda data: wanted in data
        if self.operator == "equals":
            return lambda data: wanted == data
        return _pattern_test(self.text)

    def compiled(self) -> Callable[[bytes | None, bytes | None, Headers], bool]:
        """Return the test of a key, a value and headers."""
        test, name, path = self.test(), self.name, self.name.split(".") if self.name else None

        def in_headers(_key: bytes | None, _value: bytes | None, headers: Headers) -> bool:
            return any(content is not None and test(content) for each, content in headers if each == name)

        def in_field(key: bytes | None, value: bytes | None, _headers: Headers) -> bool:
            data = key if self.field == "key" else value
            if data is not None and path is not None:
                data = _member(data, path)
            return data is not None and test(data)

        return in_headers if self.field == "header" else in_field


class RecordFilters:
    """Several filters, all of which must pass."""

    def __init__(self, filters: Iterable[RecordFilter]) -> None:
        self.filters: Sequence[RecordFilter] = tuple(filters)
        self._tests = [each.compiled() for each in self.filters]

    def passes(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Whether a record with this key, value and headers passes."""
        return all(test(key, value, headers) for test in self._tests)


def filter_of(text: str) -> RecordFilter:
    """Parse one filter: FIELD=TEXT contains, FIELD==TEXT equals, FIELD~PATTERN matches anywhere.

    FIELD is key, value, header:NAME, or key:MEMBER and value:MEMBER of JSON. Raises FilterTextError.
    """
    match = _FILTER.fullmatch(text)
    if match is None or (match[1] == "header" and not match[2]):
        raise FilterTextError(phrase("invalid filter '%(text)s': %(reason)s", text=text, reason=ALLOWED))
    field: Field = next(each for each in FIELDS if each == match[1])
    return RecordFilter(field, _SIGNS[match[3]], match[4], match[2] or "")


def _pattern_test(pattern: str) -> Callable[[bytes], bool]:
    if len(pattern) > PATTERN_MAX:
        raise FilterTextError(
            phrase("invalid filter: a regular expression of more than %(most)s characters", most=PATTERN_MAX)
        )
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(pattern.encode(), options).search
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
        raise FilterTextError(phrase("invalid filter '%(text)s': %(reason)s", text=pattern, reason=text)) from None
    return lambda data: search(data) is not None


def _member(data: bytes, path: Sequence[str]) -> bytes | None:
    """Return the member of a JSON text at a path as text, None if there is none."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    for part in path:
        if isinstance(found, dict):
            found = found.get(part)
        elif (
            isinstance(found, list) and part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(found)
        ):
            found = found[int(part)]
        else:
            return None
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else msgspec.json.encode(found)
