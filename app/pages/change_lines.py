"""The lines of the change feed in the language of the reader.

The core describes changes in English only: for the log, the command line and REST too. Here are the messages of
`kraft_core.image.changes`. A line that has none of them stays in English. Kafka's names of fields stay.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from app.texts import catalogued, joined, pattern_of, phrase

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
_PARTS: Final = (
    catalogued("leader %(was)s→%(now)s"),
    catalogued("replicas %(was)s→%(now)s"),
    catalogued("adding %(was)s→%(now)s"),
    catalogued("removing %(was)s→%(now)s"),
    catalogued("directory of replica %(ids)s"),
    catalogued("directory of replicas %(ids)s"),
    catalogued("unclean"),
    catalogued("recovering"),
    catalogued("recovered"),
)
"""What can have happened to a partition."""
_PARTITION: Final = re.compile(r"topic (?P<topic>\S+): p(?P<index>\d+) (?P<what>.+)", re.DOTALL)


def said(line: str) -> str:
    """Return a line of the feed as a sentence that is shown in the reader's language."""
    for message, pattern in _patterns().get(line.partition(" ")[0], ()):
        found = pattern.fullmatch(line)
        if found is not None:
            return phrase(message, **{name: _value(name, text) for name, text in found.groupdict().items()})
    partition = _PARTITION.fullmatch(line)
    if partition is not None:
        what = joined(", ", map(_part, re.split(r", (?=[a-zA-Z])", partition["what"])))
        return phrase("topic %(topic)s: p%(index)s %(what)s", **{**partition.groupdict(), "what": what})
    return line


def _part(text: str) -> str:
    """Return one difference of a partition."""
    for message, pattern in _part_patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            return phrase(message, **{name: _value(name, value) for name, value in found.groupdict().items()})
    return text


def _value(name: str, text: str) -> str:
    return phrase("none") if text == "none" and name in {"leader", "was", "now"} else text


@lru_cache(maxsize=1)
def _part_patterns() -> Sequence[tuple[str, Any]]:
    return [(message, pattern_of(message)) for message in _PARTS]


@lru_cache(maxsize=1)
def _patterns() -> Mapping[str, Sequence[tuple[str, Any]]]:
    """Return each message with the pattern of its lines, by the first word."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for message in _MESSAGES:
        found.setdefault(message.partition(" ")[0], []).append((message, pattern_of(message)))
    return found
