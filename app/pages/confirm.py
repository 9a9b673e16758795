"""A change, shown before it happens."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmView:
    """confirm.html: `changes` are (what, now, afterwards); `fields` go along hidden; `type_name` must be typed.

    `checks` are (holds, what was found), shown before the button; with an `error` and no `type_name` there is no button.
    """

    back: str
    back_url: str
    action: str
    button: str
    changes: Sequence[tuple[str, str, str]]
    curl: str
    command: str = ""
    checks: Sequence[tuple[bool, str]] = ()
    consequences: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()
    type_name: str = ""
    dangerous: bool = False
    verdict: str = ""
    error: str = ""
