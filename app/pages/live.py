"""Live updates of open pages: the state of the quorum in the frame, and the event stream that renews it.

Every page has the state of the quorum, taken from one value, and the stamp of the metadata it shows. The stream sends
the state every second and whenever the stamp changes; a page with another stamp fetches its live parts again. A page
about one topic, broker or voter names it as its subject, and is notified when that is deleted.
"""

import asyncio
import dataclasses
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.cluster.quorum_text import clock, state_text, state_tone
from app.http.cluster_paths import address_under_root
from app.http.errors import BadRequestError
from app.pages.language import language_of
from app.services import Reader, root_of, services_of
from app.texts import phrase, sentences, shown, speaking
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text

router = APIRouter(include_in_schema=False)

STALE_MS: Final = 3_000
TICK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.1  # at most ten events a second, however fast the cluster changes
SAME_SECONDS: Final = 0.05  # streams that send at the same moment send the same text
SUBJECT_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Gone:
    """The subject of a page no longer exists: what happened, and a link to continue."""

    text: str
    url: str
    label: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a page as part of an address: topic/ID/NAME, broker/ID or voter/ID/DIRECTORY-ID."""

    kind: str
    id: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> "Subject":
        """Return the subject that `text` was made from. Raises BadRequestError."""
        kind, _, rest = text.partition("/")
        subject_id, _, name = rest.partition("/")
        found = cls(kind, unquote(subject_id), unquote(name))
        try:
            if kind == "topic":
                uuid_from_text(found.id)
            elif kind == "voter":
                uuid_from_text(found.name)
            if kind not in {"topic", "broker", "voter"} or (kind != "topic" and not 0 <= int(found.id) < 2**31):
                raise ValueError(text)
        except ValueError:
            raise BadRequestError(f"'{text[:80]}' is not topic/ID/NAME, broker/ID or voter/ID/DIRECTORY-ID.") from None
        return found

    @classmethod
    def of_request(cls, request: Request) -> "Subject | None":
        """Return the subject of a page by its address, None if it does not exist.

        Such addresses are /topics/NAME…, /brokers/ID… and /quorum/voters/…/remove.
        """
        cluster, given, path = services_of(request).cluster, request.path_params, request.url.path
        if path.startswith("/topics/") and "name" in given:
            topic = cluster.image.topics.topic(given["name"])
            return None if topic is None else cls("topic", uuid_to_text(topic.id), topic.name)
        try:
            if path.startswith("/brokers/") and "broker_id" in given:
                found = cls.parse(f"broker/{given['broker_id']}")
            elif path.startswith("/quorum/voters/") and path.endswith("/remove"):
                found = cls.parse(f"voter/{given['voter_id']}/{given['directory_id']}")
            else:
                return None
        except BadRequestError:
            return None
        return found if found.is_there(cluster) else None

    @property
    def text(self) -> str:
        """The subject as part of an address."""
        return "/".join(quote(part, safe="") for part in (self.kind, self.id, self.name))

    def is_there(self, cluster: Cluster) -> bool:
        """Whether the image has the subject; also true before there is any metadata."""
        image = cluster.image
        if not cluster.freshness.is_ready:
            return True
        if self.kind != "voter":
            return self._is_in(image)
        voters = cluster.observer.voters
        key = (int(self.id), uuid_from_text(self.name))
        return voters is None or key in {(voter.voter_id, voter.voter_directory_id) for voter in voters.voters}

    def _is_in(self, image: MetadataImage) -> bool:
        if self.kind == "topic":
            return uuid_from_text(self.id) in image.topics.by_id
        return int(self.id) in image.cluster.brokers

    def end(self, cluster: Cluster) -> Change | None:
        """Return the change that removed the subject, None if it is no longer kept. Searches the whole feed."""
        return None if self.kind == "voter" else deletion(cluster, self._is_in)

    def gone(self, cluster: Cluster, end: Change | None) -> Gone:
        """Return what happened to the subject."""
        if self.kind == "voter":
            text = phrase(
                "Node %(id)s with directory %(directory)s is no longer a voter.", id=self.id, directory=self.name
            )
            return Gone(text, "/quorum", phrase("Go to the quorum"))
        if self.kind == "broker":
            text = phrase("Broker %(id)s was unregistered%(where)s.", id=self.id, where=_where(end))
            return Gone(text, "/brokers", phrase("Go to the brokers"))
        text = phrase("Topic %(name)s was deleted%(where)s.", name=self.name, where=_where(end))
        again = cluster.image.topics.topic(self.name)
        if again is None:
            return Gone(text, "/topics", phrase("Go to the topics"))
        more = phrase("A new topic with the same name has the id %(id)s.", id=uuid_to_text(again.id))
        return Gone(sentences([text, more]), f"/topics/{quote(self.name, safe='')}", phrase("Open the new topic"))


class SubjectWatch:
    """The state of the subject of one event stream."""

    def __init__(self, cluster: Cluster, subject: Subject) -> None:
        self._cluster = cluster
        self._subject = subject
        self._is_searched = False
        self._end: Change | None = None

    def gone(self, root: str) -> Gone | None:
        """Return what happened to the subject, None while it exists. `root` is what its address begins with."""
        if self._subject.is_there(self._cluster):
            self._is_searched = False
            return None
        if not self._is_searched:
            self._end, self._is_searched = self._subject.end(self._cluster), True
        gone = self._subject.gone(self._cluster, self._end)
        return replace(gone, url=address_under_root(root, gone.url))


def deletion(cluster: Cluster, has: Callable[[MetadataImage], bool]) -> Change | None:
    """Return the newest change that removed what an image `has`, None if it is no longer kept."""
    newest = cluster.history.newest(1, lambda each: has(each.before) and not has(each.after))
    return newest[0] if newest else None


def _where(change: Change | None) -> str:
    if change is None:
        return ""
    return phrase(" at offset %(offset)s (%(time)s)", offset=change.offset, time=clock(max(0, change.timestamp_ms)))


def topic_deletion(cluster: Cluster, name: str) -> Change | None:
    """Return the change that deleted the newest topic of this name, None if it is not at hand."""
    return deletion(cluster, lambda then: then.topics.topic(name) is not None)


def deleted_topic_text(cluster: Cluster, name: str) -> str:
    """Return the text for a missing topic: when it was deleted, if that is at hand."""
    deleted = topic_deletion(cluster, name)
    if deleted is None:
        return phrase(
            "There is no topic '%(name)s' at offset %(offset)s.", name=name[:249], offset=cluster.freshness.offset
        )
    return phrase("Topic '%(name)s' was deleted%(where)s.", name=name[:249], where=_where(deleted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """State of the quorum and age of the metadata, for the frame of every page.

    `state`: live, stale (no confirmation for 3 s) or lost (no confirmed leader, or no majority answers).
    `age_ms`: since the leader confirmed `offset`, None before the first time. `stamp`: see Cluster.stamp.
    """

    offset: int | None
    high_watermark: int
    epoch: int
    leader_id: int | None
    age_ms: int | None
    state: str
    notice: str
    tone: str
    stamp: str
    subject: str

    @property
    def leader(self) -> str:
        """Leader and epoch in words."""
        if self.leader_id is None:
            return phrase("no leader")
        return phrase("node %(id)s, epoch %(epoch)s", id=self.leader_id, epoch=self.epoch)


def live_state(cluster: Cluster, subject: Subject | None = None, stamp: str | None = None) -> Live:
    """Return the current state. `stamp` is that of the moment before the data of the page was read."""
    freshness, quorum = cluster.freshness, cluster.quorum
    is_known = freshness.is_ready and freshness.age_ms is not None
    if not is_known or quorum.standing != "led":
        state = "lost"
    else:
        state = "live" if (freshness.age_ms or 0) < STALE_MS else "stale"
    notice = cluster.foreign or state_text(quorum)
    if notice and quorum.standing != "led" and freshness.age_ms is not None and freshness.is_ready:
        confirmed = dt.datetime.now(dt.UTC).timestamp() * 1000 - freshness.age_ms
        shows = phrase(
            "Showing metadata as of offset %(offset)s, last confirmed at %(time)s.",
            offset=freshness.offset,
            time=clock(int(confirmed)),
        )
        notice = sentences([notice, shows])
    return Live(
        offset=freshness.offset if is_known else None,
        high_watermark=max(quorum.high_watermark, freshness.high_watermark),
        epoch=quorum.leader_epoch,
        leader_id=quorum.leader_id,
        age_ms=freshness.age_ms,
        state=state,
        notice=notice,
        tone=state_tone(quorum),
        stamp=stamp or cluster.stamp,
        subject="" if subject is None else subject.text,
    )


class StateEvents:
    """The event that all streams of a cluster send at the same moment, made once in each language."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._made_at = 0.0
        self._texts: dict[str, str] = {}

    def event(self, cluster: Cluster, gone: Gone | None, language: str) -> tuple[str, str]:
        """Return the stamp and the text of the event for a stream whose subject is `gone`."""
        now = asyncio.get_running_loop().time()
        if self._live is None or self._live.stamp != cluster.stamp or now - self._made_at >= SAME_SECONDS:
            self._live, self._made_at, self._texts = live_state(cluster), now, {}
        live = self._live
        if gone is not None:
            return live.stamp, _event(live, gone, language)
        if language not in self._texts:
            self._texts[language] = _event(live, None, language)
        return live.stamp, self._texts[language]


def _event(live: Live, gone: Gone | None, language: str) -> str:
    with speaking(language):
        subject = None if gone is None else _said(gone)
        data = {**_said(live), "leader": shown(live.leader), "gone": subject}
    return f"event: state\ndata: {json.dumps(data)}\n\n"


def _said(state: Live | Gone) -> dict[str, Any]:
    """Return the fields of a state in the language of the page."""
    return {field.name: shown(getattr(state, field.name)) for field in dataclasses.fields(state)}


@router.get("/events")
async def events(
    request: Request, _caller: Reader, subject: Annotated[str, Query(max_length=SUBJECT_MAX)] = ""
) -> Response:
    """Return server-sent events for live.js: the state of the frame, after each change and every second."""
    cluster = services_of(request).cluster
    watch = SubjectWatch(cluster, Subject.parse(subject)) if subject else None
    language = language_of(request)
    kept: dict[str, StateEvents] = request.app.state.state_events
    states = kept.setdefault(services_of(request).key, StateEvents())
    root = root_of(request)

    async def stream() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        stamp = ""
        while not cluster.is_stopping:
            newest, event = states.event(cluster, None if watch is None else watch.gone(root), language)
            yield event
            if newest != stamp:
                await asyncio.sleep(PAUSE_SECONDS)
            stamp = newest
            await cluster.wait_for_change(stamp, TICK_SECONDS)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
