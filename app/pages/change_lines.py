"""The lines of the change feed in the language of the reader.

The core describes changes in English only: for the log, the command line and REST too. Here are the messages of
`kraft_core.image.changes`. A line that has none of them stays in English, as those with the state of a partition do.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from app.texts import catalogued, pattern_of, phrase

_MESSAGES: Final = (
    catalogued("topic %(topic)s: created"),
    catalogued("topic %(topic)s: deleted"),
    catalogued("topic %(topic)s: ELR cleared"),
    catalogued("ELR cleared on all topics"),
    catalogued("topic %(topic)s: p%(index)s created, replicas %(replicas)s, leader %(leader)s"),
    catalogued("config of topic %(name)s: %(key)s set to %(value)s"),
    catalogued("config of topic %(name)s: %(key)s changed [hidden]"),
    catalogued("config of topic %(name)s: %(what)s removed"),
    catalogued("config of topic %(name)s: %(what)s"),
    catalogued("config of broker %(name)s: %(key)s set to %(value)s"),
    catalogued("config of broker %(name)s: %(key)s changed [hidden]"),
    catalogued("config of broker %(name)s: %(what)s removed"),
    catalogued("config of broker %(name)s: %(what)s"),
    catalogued("quota of %(who)s: %(key)s set to %(value)s"),
    catalogued("quota of %(who)s: %(what)s removed"),
    catalogued("quota of %(who)s: %(what)s"),
    catalogued("producer ids: next block begins at %(id)s"),
    catalogued("feature %(name)s set to %(level)s"),
    catalogued("feature %(name)s"),
    catalogued("broker %(id)s: unregistered"),
    catalogued("broker %(id)s: fenced"),
    catalogued("broker %(id)s: unfenced"),
    catalogued("broker %(id)s: in controlled shutdown"),
    catalogued("broker %(id)s: left controlled shutdown"),
    catalogued("broker %(id)s: registration amended"),
    catalogued("broker %(id)s: directories offline: %(directories)s"),
    catalogued("broker %(id)s: cordoned directories: none"),
    catalogued("broker %(id)s: cordoned directories: %(directories)s"),
    catalogued("broker %(id)s: registered, epoch %(epoch)s, rack %(rack)s, fenced"),
    catalogued("broker %(id)s: registered, epoch %(epoch)s, fenced"),
    catalogued("broker %(id)s: registered, epoch %(epoch)s, rack %(rack)s"),
    catalogued("broker %(id)s: registered, epoch %(epoch)s"),
    catalogued("controller %(id)s: unregistered"),
    catalogued("controller %(id)s: registered again"),
    catalogued("controller %(id)s: registered"),
    catalogued("ACL of %(principal)s: added"),
    catalogued("ACL of %(principal)s: removed"),
    catalogued("SCRAM user %(user)s: %(mechanism)s credential set"),
    catalogued("SCRAM user %(user)s: %(mechanism)s credential removed"),
    catalogued("delegation token of %(owner)s: created"),
    catalogued("delegation token of %(owner)s: renewed"),
    catalogued("delegation token of %(owner)s: removed"),
    catalogued("metadata transaction aborted: %(reason)s"),
)
"""An earlier one wins."""


def said(line: str) -> str:
    """Return a line of the feed as a sentence that is shown in the reader's language."""
    for message, pattern in _patterns().get(line.partition(" ")[0], ()):
        found = pattern.fullmatch(line)
        if found is not None:
            return phrase(message, **found.groupdict())
    return line


@lru_cache(maxsize=1)
def _patterns() -> Mapping[str, Sequence[tuple[str, Any]]]:
    """Return each message with the pattern of its lines, by the first word."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for message in _MESSAGES:
        found.setdefault(message.partition(" ")[0], []).append((message, pattern_of(message)))
    return found
