"""Parser of Kafka's `sasl.jaas.config` settings for the two supported login modules.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";

The grammar is that of Java's StreamTokenizer as Kafka configures it: words, quoted strings with Java's escapes, both of
Java's comments, one module per setting. Error messages show no value, since it may be a password.

Source: JaasConfig, JaasContext, PlainLoginModule and ScramLoginModule, Kafka 4.3.1.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_USER_PREFIX: Final = "user_"
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[A-Za-z0-9_$.\-\u00a0-\U0010ffff]+)
    |(?P<sign>[=;])
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """An invalid JAAS setting; the message shows no value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options, which hold passwords and are not part of its repr."""

    login_module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """The name with which this node logs in to other nodes."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password with which this node logs in to other nodes."""
        return self.options.get("password")

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name of PLAIN's users (`user_NAME="password"`)."""
        return {
            name.removeprefix(_USER_PREFIX): password
            for name, password in self.options.items()
            if name.startswith(_USER_PREFIX)
        }


def parse_jaas(text: str, mechanism: str) -> JaasEntry:
    """Parse a `sasl.jaas.config` setting, which must hold one login module, that of `mechanism`.

    Raises JaasError for bad syntax, for no or several modules, and for an unknown module or one of another mechanism.
    """
    entries = list(_entries(text))
    if not entries:
        raise JaasError("Login module not specified in JAAS config")
    if len(entries) > 1:
        raise JaasError(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
    entry = entries[0]
    mechanisms = _MODULES.get(entry.login_module)
    if mechanisms is None:
        raise JaasError(f"the login module {entry.login_module} is not supported; these are: {', '.join(_MODULES)}")
    if mechanism not in mechanisms:
        raise JaasError(f"the login module {entry.login_module} is not for {mechanism}")
    return entry


def _entries(text: str) -> Iterator[JaasEntry]:
    tokens = list(_tokens(text))
    position = 0
    while position < len(tokens):
        try:
            end = tokens.index((";", True), position)
        except ValueError:
            raise JaasError("JAAS config entry not terminated by semi-colon") from None
        yield _entry(tokens[position:end])
        position = end + 1


def _entry(tokens: list[tuple[str, bool]]) -> JaasEntry:
    if len(tokens) < 2 or tokens[0][1] or tokens[1][1]:
        raise JaasError("Login module control flag not specified in JAAS config")
    (module, _), (flag, _), *rest = tokens
    if flag.upper() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag}' in JAAS config")
    options: dict[str, str] = {}
    for index in range(0, len(rest), 3):
        key, is_sign = rest[index]
        if is_sign or rest[index + 1 : index + 2] != [("=", True)] or len(rest) < index + 3 or rest[index + 2][1]:
            raise JaasError(f"Value not specified for key '{'=' if is_sign else key}' in JAAS config")
        options[key] = rest[index + 2][0]
    return JaasEntry(module, options)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the tokens as (text, whether it is one of the signs = and ;)."""
    for match in _TOKEN.finditer(text):
        if match["bad"] is not None:
            raise JaasError(f"JAAS config has the character '{match['bad']}' outside of quotes")
        if match["quoted"] is not None:
            yield _ESCAPE.sub(_unescape, match["quoted"][1:-1]), False
        elif match["word"] is not None:
            yield match["word"], False
        elif match["sign"] is not None:
            yield match["sign"], True


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)
