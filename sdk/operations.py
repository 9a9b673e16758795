"""The operations of a document, and their methods in Python."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sdk.schemas import REF, Schema, Schemas, attribute, doc, or_unset

JSON: Final = "application/json"
AUTOMATIC: Final = frozenset({"cluster_id", "min_offset", "page_token"})
"""Parameters that the client fills in."""
LEFT_OUT: Final = frozenset({"fields", "includeAuthorizedOperations", "include_authorized_operations"})
"""Parameters that make an answer another type, or that are always refused."""
BY_HAND: Final = frozenset({"watch"})
"""Operations whose methods are written by hand."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a method."""

    name: str
    type: str
    default: str | None = None

    @property
    def text(self) -> str:
        """The parameter in a signature."""
        return f"{attribute(self.name)}: {self.type}" + ("" if self.default is None else f" = {self.default}")

    @property
    def item(self) -> str:
        """The parameter as an item of a dictionary."""
        return f'"{self.name}": {attribute(self.name)}'


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API as a method."""

    name: str
    verb: str
    path: str
    subject: str
    description: str
    in_path: tuple[Parameter, ...]
    in_query: tuple[Parameter, ...]
    in_headers: tuple[Parameter, ...]
    in_body: tuple[Parameter, ...]
    answers: tuple[tuple[int, str], ...]
    item: str | None
    waits_for_offset: bool

    @property
    def result(self) -> str:
        """The type of what the method returns."""
        types = dict.fromkeys(name for _, name in self.answers)
        return " | ".join(sorted(types, key=lambda name: name == "None"))

    def method(self, *, is_async: bool) -> str:
        """Return the method of the client."""
        given = [*self.in_body, *self.in_query, *self.in_headers]
        ordered = sorted(given, key=lambda each: each.default is not None)
        signature = ["self", *(each.text for each in self.in_path)]
        if ordered:
            signature += ["*", *(each.text for each in ordered)]
        prefix = "Async" if is_async else ""
        result = self.result if self.item is None else f"{prefix}Pages[{self.result}, {self.item}]"
        waits = is_async and self.item is None
        head = f"    {'async ' if waits else ''}def {self.name}({', '.join(signature)}) -> {result}:"
        call = self._call()
        sent = f"{'await ' if waits else ''}self._send({call})"
        body = sent if self.item is None else f"{prefix}Pages(self._send, {call})"
        return "\n".join((head, doc(self.description, 8), f"        return {body}"))

    def _call(self) -> str:
        answers = ", ".join(f"{status}: {name}" for status, name in self.answers)
        parts = [f'"{self.verb}"', f'"{self.path}"', f"{{{answers}}}"]
        for name, members in (("path", self.in_path), ("query", self.in_query), ("headers", self.in_headers)):
            if members:
                parts.append(f"{name}={{{', '.join(each.item for each in members)}}}")
        if self.in_body:
            parts.append(f"body={{{', '.join(each.item for each in self.in_body)}}}")
        if self.waits_for_offset:
            parts.append("waits_for_offset=True")
        return f"Call[{self.result}]({', '.join(parts)})"


def operations(document: Schema, schemas: Schemas) -> Iterator[Operation]:
    """Yield the operations below /v3, in the order of the document."""
    for path, methods in document["paths"].items():
        if not path.startswith("/v3/"):
            continue
        for verb, found in methods.items():
            if found["operationId"] not in BY_HAND:
                yield _operation(path, verb.upper(), found, schemas)


def _operation(path: str, verb: str, found: Schema, schemas: Schemas) -> Operation:
    given = {each["name"]: each for each in found.get("parameters", ())}
    named = {name: each for name, each in given.items() if name not in AUTOMATIC | LEFT_OUT}
    queried = tuple(_parameter(each, schemas) for each in named.values() if each["in"] == "query")
    headers = tuple(
        _parameter(each, schemas)
        for name, each in named.items()
        if each["in"] == "header" and not (verb == "GET" and name == "if-match")
    )
    in_path = [_parameter(each, schemas) for each in named.values() if each["in"] == "path"]
    answers = tuple(_answers(verb, found, schemas))
    return Operation(
        name=found["operationId"],
        verb=verb,
        path=path,
        subject=attribute(next(tag for tag in found["tags"] if tag != "native")),
        description=found["description"],
        in_path=tuple(sorted(in_path, key=lambda each: path.index(f"{{{each.name}}}"))),
        in_query=queried,
        in_headers=headers,
        in_body=tuple(_body(found, schemas, {each.name for each in queried})),
        answers=answers,
        item=_item(answers[0][1], schemas) if verb == "GET" else None,
        waits_for_offset=verb == "GET" and "min_offset" in given,
    )


def _parameter(found: Schema, schemas: Schemas) -> Parameter:
    name, type_ = found["name"], schemas.type_of(found["schema"], sent=True)
    if name == "validate_only":
        return Parameter(name, "bool", "False")
    if name == "at_offset":
        type_ = "int | None"
    if found["required"]:
        return Parameter(name, type_)
    return Parameter(name, type_ if "None" in type_ else f"{type_} | None", "None")


def _body(found: Schema, schemas: Schemas, taken: set[str]) -> Iterator[Parameter]:
    """Yield the members of the body. Those that the query can have too are left to it."""
    if "requestBody" not in found:
        return
    schema = schemas.resolved(found["requestBody"]["content"][JSON]["schema"])
    for name, each in schema.get("properties", {}).items():
        type_ = schemas.type_of(each, sent=True)
        if name in schema.get("required", ()):
            yield Parameter(name, type_)
        elif name not in taken:
            yield Parameter(name, or_unset(type_), "UNSET")


def _answers(verb: str, found: Schema, schemas: Schemas) -> Iterator[tuple[int, str]]:
    """Yield the status and the type of each success."""
    for status, answer in sorted(found["responses"].items()):
        if status.startswith("2"):
            schema: Mapping[str, Any] = (answer.get("content") or {}).get(JSON, {}).get("schema") or {}
            types = schemas.type_of(schema, sent=False) if schema else "bytes" if verb == "GET" else "None"
            yield int(status), types


def _item(name: str, schemas: Schemas) -> str | None:
    """Return the type of the items if the answer is a list that may have a next page."""
    members = schemas.by_name.get(name, {}).get("properties", {})
    if members.get("metadata", {}).get("$ref") != f"{REF}ListMetadata":
        return None
    return schemas.type_of(members["data"]["items"], sent=False)
