"""The form of a page of configs: several values and resets at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from app.http.errors import UnprocessableError
from app.pages.config_values import parsed, unit_of_entry
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource

SET_PREFIX: Final = "value:"
EMPTY: Final = '""'
FIELDS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class ConfigForm:
    """A form of configs: the text of each field, the names to reset, the search to return to."""

    values: dict[str, str]
    resets: frozenset[str]
    search: str
    only_set: str
    confirmed: bool

    def changes(self, entries: Sequence[ConfigEntry], own: ConfigSource) -> list[ConfigChange]:
        """Return what differs from the current state, by name. An empty field and an unchanged one change nothing.

        Raises UnprocessableError for an unknown config, a value in a wrong unit, and when nothing differs.
        """
        known = {entry.name: entry for entry in entries}
        changes = [ConfigChange(name, AlterConfigOp.DELETE) for name in self.resets if name in known]
        for name, text in self.values.items():
            entry = known.get(name)
            if entry is None or name in self.resets or not text or text == given_value(entry, own):
                continue
            try:
                value = parsed(text, unit_of_entry(entry))
            except ValueError as error:
                raise UnprocessableError(phrase("%(name)s: %(why)s", name=name, why=sentence_of(error))) from None
            changes.append(ConfigChange(name, AlterConfigOp.SET, "" if value == EMPTY else value))
        unknown = sorted(name for name in {*self.values, *self.resets} if name not in known)
        if unknown:
            raise UnprocessableError(phrase("'%(name)s' is not a config that can be set here.", name=unknown[0][:249]))
        if not changes:
            raise UnprocessableError(phrase("Nothing was changed: type a value or select a reset."))
        return sorted(changes, key=lambda change: change.name)


def shown(value: str | None) -> str:
    """Return a value as text; null and the empty text differ."""
    if value is None:
        return "null"
    return value or '""'


def given_value(entry: ConfigEntry, own: ConfigSource) -> str:
    """Return what the field of a config holds at first: its own value, "" for an inherited one."""
    return "" if entry.source != own or entry.is_sensitive else shown(entry.value)


async def config_form(request: Request) -> ConfigForm:
    """Return the form of a request."""
    form = await request.form(max_fields=FIELDS_MAX, max_files=0)
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    fields = dict(texts)
    return ConfigForm(
        values={name.removeprefix(SET_PREFIX): value for name, value in texts if name.startswith(SET_PREFIX)},
        resets=frozenset(value for name, value in texts if name == "reset"),
        search=fields.get("q", ""),
        only_set=fields.get("only_set", ""),
        confirmed=bool(fields.get("confirmed")),
    )
