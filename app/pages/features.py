"""Features: finalized levels, the levels that nodes support, and updates with a preview."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.cluster.features import FeatureUpdate
from app.cluster.log_events.events import FeatureChange
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, counted, page_of, render, whole_number
from app.pages.survey_notes import SurveyNotes, notes_of, survey_of
from app.security.audit import committers_at
from app.services import Admin, PastReader, Services, services_of
from app.texts import phrase
from kraft_core.clients.admin.cluster import UpgradeType
from kraft_core.image.metadata_image import BrokerRegistration, ControllerRegistration
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_version import FEATURES, KRAFT_VERSION, METADATA_VERSION, MetadataVersion

router = APIRouter(include_in_schema=False)

Kind = Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"]
LEVEL_MAX: Final = 2**15 - 1
HISTORY_MAX: Final = 100
KIND_WORDS: Final[Mapping[Kind, str]] = {
    "UPGRADE": phrase("upgrade"),
    "SAFE_DOWNGRADE": phrase("safe downgrade"),
    "UNSAFE_DOWNGRADE": phrase("unsafe downgrade"),
}


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One feature: its finalized level, the levels known to this software, and those that all nodes support."""

    name: str
    level: str
    known: str
    common: str


@dataclass(frozen=True, slots=True)
class LevelChange:
    """One change of a feature's level; `actor` is empty for a change made elsewhere."""

    offset: int
    change: int
    at: dt.datetime
    name: str
    before: str
    after: str
    actor: str


@dataclass(frozen=True, slots=True)
class FeaturesView:
    """Model of features.html. `history` is newest first, at most HISTORY_MAX of `changes`."""

    rows: Sequence[FeatureRow]
    kinds: Sequence[tuple[str, str]]
    history: Sequence[LevelChange]
    changes: int
    notes: SurveyNotes


def level_text(name: str, level: int) -> str:
    """Return a level as text; that of metadata.version with its name."""
    if name == METADATA_VERSION and level in MetadataVersion._value2member_map_:
        return f"{level} ({MetadataVersion(level).version})"
    return f"{level}" if level else phrase("0 (off)")


def feature_rows(cluster: Cluster) -> list[FeatureRow]:
    """Return all features that this software or the cluster knows, by name."""
    image = cluster.image
    quorum = cluster.quorum
    kraft_version = UNKNOWN if quorum.standing == "unknown" or quorum.kraft_version < 0 else str(quorum.kraft_version)
    registered: list[BrokerRegistration | ControllerRegistration] = []
    registered += [*image.cluster.brokers.values(), *image.cluster.controllers.values()]
    nodes = {node.id for node in registered}  # one that is both broker and controller registers twice
    rows = []
    for name in sorted({*FEATURES, *image.features.levels}):
        feature = FEATURES.get(name)
        by_node = [(node.id, node.supported_features.get(name)) for node in registered]
        ranges = [found for _, found in by_node if found is not None]
        known_by = {node_id for node_id, found in by_node if found is not None}
        low, high = max((each.min for each in ranges), default=0), min((each.max for each in ranges), default=0)
        rows.append(
            FeatureRow(
                name,
                kraft_version if name == KRAFT_VERSION else level_text(name, image.features.level(name)),
                UNKNOWN
                if feature is None
                else phrase("%(least)s to %(most)s", least=feature.minimum, most=feature.maximum),
                phrase(
                    "%(least)s to %(most)s, by %(part)s of %(nodes)s",
                    least=low,
                    most=high,
                    part=len(known_by),
                    nodes=counted(len(nodes), "node"),
                )
                if ranges and low <= high
                else phrase("none"),
            )
        )
    return rows


async def level_changes(services: Services, found: Sequence[FeatureChange]) -> list[LevelChange]:
    """Return the changes in words, with who made them through this installation."""
    actors = await services.database.read(committers_at, {each.change for each in found})
    return [
        LevelChange(
            offset=each.offset,
            change=each.change,
            at=dt.datetime.fromtimestamp(max(0, each.time_ms) / 1000, dt.UTC),
            name=each.name,
            before=level_text(each.name, each.before),
            after=level_text(each.name, each.after),
            actor=actors.get(each.change, ""),
        )
        for each in found
    ]


@router.get("/features")
async def features(request: Request, _caller: PastReader) -> Response:
    """Return the page."""
    services = services_of(request)
    survey, _ = await survey_of(services.cluster)
    changes = survey.feature_changes[::-1]
    view = FeaturesView(
        rows=feature_rows(services.cluster),
        kinds=list(KIND_WORDS.items()),
        history=await level_changes(services, changes[:HISTORY_MAX]),
        changes=len(changes),
        notes=notes_of(survey),
    )
    return render(request, "features.html", page=page_of(request, phrase("Features"), "/features"), view=view)


@router.post("/features")
async def update(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    level: Annotated[str, Form()] = "",
    kind: Annotated[str, Form()] = "UPGRADE",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview another level as the controller validates it; with confirmed=yes set it."""
    services = services_of(request)
    if kind not in UpgradeType.__members__:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"'{kind[:40]}' is not one of {', '.join(UpgradeType.__members__)}."
        )
    typed, wanted = level.strip()[:40], whole_number(level, 0, LEVEL_MAX)

    async def change(*, validate_only: bool) -> Flash:
        assert wanted is not None, "an error is shown for a level that cannot be read"
        updates = [FeatureUpdate(name=name, level=wanted, upgrade_type=cast("Kind", kind))]
        offset = await services.actions.features.update(caller, updates, validate_only=validate_only)
        said = level_text(name, wanted)
        text = phrase("%(name)s set to level %(level)s at offset %(offset)s.", name=name, level=said, offset=offset)
        return Flash("good", text)

    now = next((row.level for row in feature_rows(services.cluster) if row.name == name), UNKNOWN)
    is_down = kind != UpgradeType.UPGRADE.name
    body = {"data": [{"feature_name": name, "level": wanted, "upgrade_type": kind}]}
    view = ConfirmView(
        title=phrase("Update feature"),
        active="/features",
        back=phrase("Features"),
        back_url="/features",
        action="/features",
        button=phrase("Update feature"),
        changes=[(name, now, typed if wanted is None else level_text(name, wanted))],
        consequences=[
            phrase("Metadata that only the higher level supports is lost.")
            if is_down
            else phrase("A downgrade may not be possible afterwards.")
        ],
        curl=cluster_curl(request, "PATCH", "features", body),
        fields=[("name", name), ("level", level), ("kind", kind)],
        dangerous=kind == UpgradeType.UNSAFE_DOWNGRADE.name,
    )
    return await preview_or_apply(
        request,
        view,
        confirmed=bool(confirmed),
        apply=lambda: change(validate_only=False),
        dry_run=lambda: change(validate_only=True),
        error=""
        if wanted is not None
        else phrase(
            "'%(given)s' is not a whole number from %(least)s to %(most)s.", given=typed, least=0, most=LEVEL_MAX
        ),
    )
