"""The lines of the change feed in the language of the reader.

The core describes changes in English only: for the log, the command line and REST too. This module knows the sentences
of `kraft_core.image.changes`; a line that is none of them, such as one with the state of a partition, stays as it is.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from app.texts import phrase

_SENTENCES: Final = (
    phrase("topic %(topic)s: created", topic="%(topic)s"),
    phrase("topic %(topic)s: deleted", topic="%(topic)s"),
    phrase("topic %(topic)s: ELR cleared", topic="%(topic)s"),
    phrase("ELR cleared on all topics"),
    phrase(
        "topic %(topic)s: p%(index)s created, replicas %(replicas)s, leader %(leader)s",
        topic="%(topic)s",
        index="%(index)s",
        replicas="%(replicas)s",
        leader="%(leader)s",
    ),
    phrase("config of topic %(name)s: %(key)s set to %(value)s", name="%(name)s", key="%(key)s", value="%(value)s"),
    phrase("config of topic %(name)s: %(key)s changed [hidden]", name="%(name)s", key="%(key)s"),
    phrase("config of topic %(name)s: %(what)s removed", name="%(name)s", what="%(what)s"),
    phrase("config of topic %(name)s: %(what)s", name="%(name)s", what="%(what)s"),
    phrase("config of broker %(name)s: %(key)s set to %(value)s", name="%(name)s", key="%(key)s", value="%(value)s"),
    phrase("config of broker %(name)s: %(key)s changed [hidden]", name="%(name)s", key="%(key)s"),
    phrase("config of broker %(name)s: %(what)s removed", name="%(name)s", what="%(what)s"),
    phrase("config of broker %(name)s: %(what)s", name="%(name)s", what="%(what)s"),
    phrase("quota of %(who)s: %(key)s set to %(value)s", who="%(who)s", key="%(key)s", value="%(value)s"),
    phrase("quota of %(who)s: %(what)s removed", who="%(who)s", what="%(what)s"),
    phrase("quota of %(who)s: %(what)s", who="%(who)s", what="%(what)s"),
    phrase("producer ids: next block begins at %(id)s", id="%(id)s"),
    phrase("feature %(name)s set to %(level)s", name="%(name)s", level="%(level)s"),
    phrase("feature %(name)s", name="%(name)s"),
    phrase("broker %(id)s: unregistered", id="%(id)s"),
    phrase("broker %(id)s: fenced", id="%(id)s"),
    phrase("broker %(id)s: unfenced", id="%(id)s"),
    phrase("broker %(id)s: in controlled shutdown", id="%(id)s"),
    phrase("broker %(id)s: left controlled shutdown", id="%(id)s"),
    phrase("broker %(id)s: registration amended", id="%(id)s"),
    phrase("broker %(id)s: directories offline: %(directories)s", id="%(id)s", directories="%(directories)s"),
    phrase("broker %(id)s: cordoned directories: none", id="%(id)s"),
    phrase("broker %(id)s: cordoned directories: %(directories)s", id="%(id)s", directories="%(directories)s"),
    phrase(
        "broker %(id)s: registered, epoch %(epoch)s, rack %(rack)s, fenced",
        id="%(id)s",
        epoch="%(epoch)s",
        rack="%(rack)s",
    ),
    phrase("broker %(id)s: registered, epoch %(epoch)s, fenced", id="%(id)s", epoch="%(epoch)s"),
    phrase(
        "broker %(id)s: registered, epoch %(epoch)s, rack %(rack)s", id="%(id)s", epoch="%(epoch)s", rack="%(rack)s"
    ),
    phrase("broker %(id)s: registered, epoch %(epoch)s", id="%(id)s", epoch="%(epoch)s"),
    phrase("controller %(id)s: unregistered", id="%(id)s"),
    phrase("controller %(id)s: registered again", id="%(id)s"),
    phrase("controller %(id)s: registered", id="%(id)s"),
    phrase("ACL of %(principal)s: added", principal="%(principal)s"),
    phrase("ACL of %(principal)s: removed", principal="%(principal)s"),
    phrase("SCRAM user %(user)s: %(mechanism)s credential set", user="%(user)s", mechanism="%(mechanism)s"),
    phrase("SCRAM user %(user)s: %(mechanism)s credential removed", user="%(user)s", mechanism="%(mechanism)s"),
    phrase("delegation token of %(owner)s: created", owner="%(owner)s"),
    phrase("delegation token of %(owner)s: renewed", owner="%(owner)s"),
    phrase("delegation token of %(owner)s: removed", owner="%(owner)s"),
    phrase("metadata transaction aborted: %(reason)s", reason="%(reason)s"),
)
"""In English each is its own template, with the names of its values; an earlier one wins."""

_VALUE: Final = re.compile(r"%\\\((\w+)\\\)s")


def said(line: str) -> str:
    """Return a line of the feed as a sentence that is shown in the reader's language."""
    for message, pattern in _patterns().get(line.partition(" ")[0], ()):
        found = pattern.fullmatch(line)
        if found is not None:
            return phrase(message, **found.groupdict())
    return line


@lru_cache(maxsize=1)
def _patterns() -> Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]:
    """Return each sentence with a pattern of its lines, by the first word."""
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for message in map(str, _SENTENCES):
        pattern = re.compile(_VALUE.sub(r"(?P<\1>.+?)", re.escape(message)), re.DOTALL)
        found.setdefault(message.partition(" ")[0], []).append((message, pattern))
    return found
