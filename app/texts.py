"""Texts that people read on pages, in English or in the language of the reader.

A `Text` is English to every program: to REST, to the log, to the database. A page shows it in the reader's language,
since the template environment translates each Text that it prints. So a sentence is made where its facts are, without
knowing who will read it, and is never stored in another language than English.

In Python:     phrase("Broker %(id)s is fenced", id=3), phrases("%(count)s topic", "%(count)s topics", 7)
In templates:  {{ _("Save") }}, {% trans id=broker.id %}Broker {{ id }} is fenced{% endtrans %}

The English sentence is the key of the catalogue `app/languages/zh.po` (GNU gettext). `make messages` collects the
sentences of the sources into it. What an f-string, `+` or `join` puts together is a plain str again and stays English:
put values into the sentence, and use `joined`. A percent sign in a sentence is written twice.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

ENGLISH: Final = "en"
LANGUAGES: Final = {ENGLISH: "English", "zh": "中文"}
"""The languages of the pages by their code (BCP 47), with the name that each gives itself."""

Catalogue = Mapping[str, str]
"""The sentences of a language by their English: by the singular and by the plural, if there is one."""

_STORED_MAX: Final = 4_000
_NESTED_MAX: Final = 6
"""How deep sentences lie in each other: the advice of a report has one with five remedies, each in the one before."""
_OWN_LETTERS: Final = 4
_FULL_STOPS: Final = ("。", "！", "？", "；")  # noqa: RUF001  # of full width
_VALUE: Final = re.compile(r"%\((\w+)\)[sd]")

_FOLDER: Final = Path(__file__).parent / "languages"
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


class Text(str):
    """A sentence in English that can be shown in another language."""

    __slots__ = ("in_language",)

    in_language: Callable[[Catalogue], str]

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return how it is pickled and copied: as a plain str."""
        return str, (str(self),)


def phrase(message: str, /, **values: object) -> Text:
    """Return a sentence with its values, as `message % values` in English. Values that are a Text change with it."""
    return _made(lambda catalogue: _filled(catalogue.get(message, message), catalogue, values))


def phrases(singular: str, plural: str, count: int, /, **values: object) -> Text:
    """Return the sentence for this count, which is its value `count` unless `values` has a formatted one."""
    return phrase(singular if count == 1 else plural, **{"count": count, **values})


def catalogued(message: str) -> str:
    """Return a message that is filled elsewhere, so that `make messages` finds it here."""
    return message


def joined(separator: str, parts: Iterable[str]) -> Text:
    """Return the parts as one text; the separator and those that are a Text change with the language."""
    kept = list(parts)
    return _made(lambda catalogue: catalogue.get(separator, separator).join(_in(catalogue, part) for part in kept))


def sentences(parts: Iterable[str]) -> Text:
    """Return sentences as one text. No space follows a full stop of full width."""
    kept = list(parts)
    return _made(lambda catalogue: _run_on([_in(catalogue, part) for part in kept]))


def capitalised(text: str) -> Text:
    """Return a text with a capital letter first."""
    return _made(lambda catalogue: (said := _in(catalogue, text))[:1].upper() + said[1:])


def recognised(english: str) -> Text:
    """Return a sentence that was stored or raised in English, as the sentence of the catalogue that it was made from.

    Values of several words are recognised too, names are not; what is in no catalogue stays as it is.
    """
    return _made(lambda catalogue: _recognised(catalogue, english, _NESTED_MAX) if catalogue else english)


def pattern_of(message: str) -> Any:
    """Return what matches the English of a message, with its values as named groups. RE2 takes linear time."""
    import re2

    parts = enumerate(_parts(message))
    return re2.compile("(?s)" + "".join(f"(?P<{part}>.+?)" if at % 2 else re2.escape(part) for at, part in parts))


def sentence_of(error: Exception) -> str:
    """Return the sentence of an error, still a Text if it was raised with one, which `str` would make English."""
    said = error.args[0] if error.args else None
    return said if isinstance(said, Text) else str(error)


def plain(value: object) -> str:
    """Return a Text as a plain str, which msgspec asks of its `enc_hook`.

    Raises NotImplementedError for other types, by which msgspec recognises a value that nobody can encode.
    """
    if isinstance(value, Text):
        return str(value)
    raise NotImplementedError(type(value))


def shown(value: Any) -> Any:
    """Return a Text in the language of the page that is being rendered, and everything else as it is."""
    return _in(_catalogue(_language.get()), value) if isinstance(value, Text) else value


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Use this language for what is rendered within the block. Raises KeyError for any other than LANGUAGES."""
    if language not in LANGUAGES:
        raise KeyError(language)
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def gettext(message: str, /, **values: object) -> Markup:
    """Return a sentence of a template, with its values escaped; its own markup stays."""
    said = _catalogue(_language.get()).get(message, message)
    return Markup(said) % _values(values)  # noqa: S704  # templates and catalogue are ours; `%` escapes the values


def ngettext(singular: str, plural: str, count: int, /, **values: object) -> Markup:
    """Return the sentence of a template for this count, as `gettext` does."""
    return gettext(singular if count == 1 else plural, **values)


def preferred(accepted: str) -> str:
    """Return the language of LANGUAGES that a header Accept-Language likes best, English without any."""
    wishes = []
    for place, wish in enumerate(accepted[:200].split(",")):
        name, _, weight = wish.strip().partition(";")
        try:
            liking = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        code = name.strip().lower().partition("-")[0]
        if code in LANGUAGES and liking > 0:
            wishes.append((-liking, place, code))
    return min(wishes)[2] if wishes else ENGLISH


def _made(in_language: Callable[[Catalogue], str]) -> Text:
    made = Text(in_language({}))
    made.in_language = in_language
    return made


def _run_on(said: Sequence[str]) -> str:
    """Return sentences with a space between two, unless the first ends with a sign of full width."""
    spaced = (each if not at or said[at - 1].endswith(_FULL_STOPS) else f" {each}" for at, each in enumerate(said))
    return "".join(spaced)


def _in(catalogue: Catalogue, value: str) -> str:
    return value.in_language(catalogue) if isinstance(value, Text) else value


def _filled(message: str, catalogue: Catalogue, values: Mapping[str, object]) -> str:
    return message % {name: _in(catalogue, each) if isinstance(each, str) else each for name, each in values.items()}


def _recognised(catalogue: Catalogue, english: str, depth: int) -> str:
    if english in catalogue:
        return catalogue[english]
    if not depth or " " not in english.strip() or len(english) > _STORED_MAX:
        return english
    for message, start, end, pattern in _patterns(tuple(catalogue)):
        found = pattern.fullmatch(english) if english.startswith(start) and english.endswith(end) else None
        if found is not None and set(_VALUE.findall(catalogue[message])) <= found.groupdict().keys():
            values = {  # one word may be the name of a topic or a rack
                name: _recognised(catalogue, value, depth - 1) if " " in value else value
                for name, value in found.groupdict().items()
            }
            return catalogue[message] % values
    return english


def _parts(message: str) -> list[str]:
    """Return the words of a message and the names of its values, by turns."""
    return _VALUE.split(message.replace("%%", "%"))


@lru_cache(maxsize=len(LANGUAGES))
def _patterns(messages: tuple[str, ...]) -> list[tuple[str, str, str, Any]]:
    """Return the sentences with values, how they start and end, and what they match; the longest sentences first."""
    found = []
    for message in messages:
        parts = _parts(message)
        own, names = "".join(parts[::2]), parts[1::2]
        if names and sum(map(str.isalpha, own)) >= _OWN_LETTERS and len(set(names)) == len(names):
            found.append((len(own), message, parts[0], parts[-1], pattern_of(message)))
    return [(message, start, end, pattern) for _, message, start, end, pattern in sorted(found, key=lambda x: -x[0])]


def _values(values: Mapping[str, object]) -> dict[str, object]:
    return {name: shown(each) for name, each in values.items()}


@lru_cache(maxsize=len(LANGUAGES))
def _catalogue(language: str) -> Catalogue:
    if language == ENGLISH:
        return {}
    from babel.messages.pofile import read_po

    with (_FOLDER / f"{language}.po").open("rb") as file:
        found = read_po(file, locale=language, abort_invalid=True)
    catalogue: dict[str, str] = {}
    for each in found:
        if each.id and each.string and not each.fuzzy:
            forms = (each.id,) if isinstance(each.id, str) else each.id
            catalogue.update(dict.fromkeys(forms, _first(each.string)))
    return catalogue


def _first(forms: str | list[str] | tuple[str, ...]) -> str:
    return forms if isinstance(forms, str) else forms[0]
