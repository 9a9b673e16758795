"""ACLs from a text: JSON or CSV with the members that REST gives, or the CSV that the page of ACLs downloads."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.acls import acl_of
from app.texts import phrase, sentence_of
from kraft_core.image.acls_image import StandardAcl
from kraft_core.image.standard_authorizer import parse_principal
from kraft_core.protocol.errors import KafkaError

ACLS_MAX: Final = 1_000
ERRORS_MAX: Final = 20
MEMBERS: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
SHOWN: Final = ("principal", "permission", "operation", "resource", "pattern_type", "host")
"""The columns of the page in their order; their names depend on the language."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a line, or with an entry of JSON, both counted from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """The ACLs of a text, each once, and what is wrong with it, at most ERRORS_MAX."""

    acls: Sequence[StandardAcl]
    wrong: Sequence[Wrong]


def read_acls(text: str) -> Read:
    """Read ACLs from a text."""
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    found: dict[StandardAcl, None] = {}
    wrong: list[Wrong] = []
    try:
        for line, row in rows:
            if len(wrong) >= ERRORS_MAX:
                break
            try:
                found[_acl_of(row)] = None
            except (KafkaError, ValueError) as error:
                wrong.append(Wrong(line, error.message if isinstance(error, KafkaError) else sentence_of(error)))
    except _UnreadableError as error:
        wrong.append(Wrong(error.line, sentence_of(error)))
    if not wrong and not found:
        wrong.append(Wrong(1, phrase("There is no ACL in it.")))
    if not wrong and len(found) > ACLS_MAX:
        wrong.append(Wrong(1, phrase("There are more than %(most)s ACLs.", most=ACLS_MAX)))
    return Read(list(found), wrong)


class _UnreadableError(ValueError):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def _json_rows(text: str) -> Iterable[tuple[int, Mapping[str, str]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(getattr(error, "lineno", 1), phrase("This is not valid JSON.")) from None
    entries = document.get("data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise _UnreadableError(1, phrase("JSON must be a list of ACLs, or have one as data."))
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise _UnreadableError(number, phrase("This is no JSON object."))
        row = {str(name): value if isinstance(value, str) else "" for name, value in entry.items()}
        try:
            "".join(row.values()).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise _UnreadableError(number, phrase("This is not valid JSON.")) from None
        yield number, row


def _csv_rows(text: str) -> Iterable[tuple[int, Mapping[str, str]]]:
    reader = csv.reader(io.StringIO(text.strip("\ufeff\n\r ")))
    header: Sequence[str] | None = None
    try:
        for row in reader:
            if header is None:
                header = [each.strip().lower().replace(" ", "_") for each in row]
                if not set(MEMBERS) - {"host"} <= set(header):
                    if len(header) != len(SHOWN):
                        names = ", ".join(MEMBERS)
                        raise _UnreadableError(
                            1, phrase("The first line must name the columns: %(names)s.", names=names)
                        )
                    header = SHOWN
            elif any(row):
                yield reader.line_num, dict(zip(header, row, strict=False))
    except csv.Error:
        raise _UnreadableError(reader.line_num, phrase("This is not valid CSV.")) from None


def _acl_of(row: Mapping[str, str]) -> StandardAcl:
    """Return the ACL of a row. Raises KafkaError and ValueError."""
    given = {name: value.strip() for name, value in row.items()}
    if "resource" in given:  # as the page shows it: topic orders
        kind, _, name = given["resource"].partition(" ")
        given |= {"resource_type": kind, "resource_name": name}
    missing = [name for name in MEMBERS if name != "host" and not given.get(name)]
    if missing:
        raise ValueError(phrase("%(names)s must be given.", names=", ".join(missing)))
    parse_principal(given["principal"])
    return acl_of(given | {"host": given.get("host") or "*", "operation": given["operation"].replace(" ", "_")})
