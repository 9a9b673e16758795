r"""Maps the distinguished name of a client's certificate to the name of a principal.

`ssl.principal.mapping.rules` holds rules, separated by commas; the first that matches the whole name applies:

    RULE:pattern/replacement/     a regular expression and the resulting name, $1 … for its groups
    RULE:pattern/replacement/L    the same, then in lower case (U: upper case)
    DEFAULT                       the name as it is

Source: SslPrincipalMapper, Kafka 4.3.1; KIP-371.
"""

import re
from dataclasses import dataclass
from typing import Final

DEFAULT_RULES: Final = "DEFAULT"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(rf"(?:{_RULE})\Z")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoMatchingRule(ValueError):  # noqa: N818  # Kafka's name
    """No rule matches a distinguished name, so that the client has no principal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule. `pattern` None: the name stays as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the name of the principal; None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expand, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _expand(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda reference: _value(reference, match), self.replacement)


class SslPrincipalMapper:
    """The rules of one listener. Raises ValueError with the rule for an invalid one."""

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        self._rules = [rule for part in _SPLITTER.finditer(rules.strip()) if (rule := _parse(part[1])) is not None]

    def name_of(self, distinguished_name: str) -> str:
        """Map a name. Raises NoMatchingRule."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {distinguished_name}")


def _parse(text: str) -> _Rule | None:
    """Parse one rule; None for an empty one."""
    match = _PARSER.match(text)
    assert match is not None, "the last alternative takes anything"
    if match[1] is not None:
        return _Rule()
    if match[2] is None:
        if text:
            raise ValueError(f"Invalid rule: `{text}`")
        return None
    try:
        pattern = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", match[2]))
    except re.error as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error
    return _Rule(pattern, match[3], match[4])


def _value(reference: re.Match[str], match: re.Match[str]) -> str:
    """Return the text of $N. With one group, $12 is group 1 and the text 2."""
    if reference[1] is not None:
        return reference[1]
    digits, groups = reference[2], match.re.groups
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= groups:
            return (match[int(digits[:length])] or "") + digits[length:]
    return reference[0]
