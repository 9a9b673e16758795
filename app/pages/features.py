"""Features and their levels: what is switched on, what each node could do, and the way up or down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.brokers import BrokerInUseError, broker_use
from app.cluster.cluster import Cluster
from app.cluster.features import FeatureUpdate, UpgradeType
from app.pages.brokers import known_broker
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, counted, go_to, page_of, refusal, render, whole_number
from app.pages.topic import curl
from app.security.roles import Role
from app.services import Admin, Reader, services_of
from kraft_core.image.metadata_image import BrokerRegistration, ControllerRegistration
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_version import FEATURES, KRAFT_VERSION, METADATA_VERSION, MetadataVersion

router = APIRouter(include_in_schema=False)

Kind = Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"]


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One feature. `level` is what counts now, in words; `common` the levels that all nodes support."""

    name: str
    level: str
    known: str
    common: str


@dataclass(frozen=True, slots=True)
class FeaturesView:
    """What features.html shows."""

    rows: Sequence[FeatureRow]
    kinds: Sequence[str]
    may_change: bool


def level_text(name: str, level: int) -> str:
    """A level; metadata.version's with its name."""
    if name == METADATA_VERSION and level in MetadataVersion._value2member_map_:
        return f"{level} ({MetadataVersion(level).version})"
    return f"{level}" if level else "0 (off)"


def feature_rows(cluster: Cluster) -> list[FeatureRow]:
    """All features that this software or the cluster knows, by name."""
    image = cluster.image
    quorum = cluster.quorum
    kraft_version = UNKNOWN if quorum.standing == "unknown" else str(quorum.kraft_version)
    registered: list[BrokerRegistration | ControllerRegistration] = []
    registered += [*image.cluster.brokers.values(), *image.cluster.controllers.values()]
    nodes = {node.id for node in registered}  # one that is both broker and controller registers twice
    rows = []
    for name in sorted({*FEATURES, *image.features.levels}):
        feature = FEATURES.get(name)
        told = [(node.id, node.supported_features.get(name)) for node in registered]
        ranges = [found for _, found in told if found is not None]
        known_by = {node_id for node_id, found in told if found is not None}
        low, high = max((each.min for each in ranges), default=0), min((each.max for each in ranges), default=0)
        rows.append(
            FeatureRow(
                name,
                kraft_version if name == KRAFT_VERSION else level_text(name, image.features.level(name)),
                UNKNOWN if feature is None else f"{feature.minimum} to {feature.maximum}",
                f"{low} to {high}, by {len(known_by)} of {counted(len(nodes), 'node')}"
                if ranges and low <= high
                else "none",
            )
        )
    return rows


@router.get("/features")
async def features(request: Request, caller: Reader) -> Response:
    """The page."""
    services = services_of(request)
    may_change = caller.principal.role >= Role.ADMIN
    view = FeaturesView(feature_rows(services.cluster), [kind.name for kind in UpgradeType], may_change)
    return render(request, "features.html", page=page_of(request, "Features", "/features"), view=view)


@router.post("/features")
async def update(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    level: Annotated[str, Form()] = "",
    kind: Annotated[str, Form()] = "UPGRADE",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Show what another level changes, as the controller judges it; with confirmed=yes set it."""
    services = services_of(request)
    if kind not in UpgradeType.__members__:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown upgrade type {kind[:40]}")
    wanted = whole_number(level, 0, 2**15 - 1)
    error, verdict, status = "", "", 200
    if wanted is None:
        error, status = f"'{level.strip()[:40]}' is not a whole number from 0 to {2**15 - 1}.", 422
    else:
        update = FeatureUpdate(name=name, level=wanted, upgrade_type=cast("Kind", kind))
        try:
            offset = await services.actions.features.update(caller, [update], validate_only=not confirmed)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            if confirmed:
                note = f"{name} is at level {level_text(name, wanted)} since offset {offset}."
                return go_to(request, "/features", Flash("good", note))
            verdict = "The controller would accept this. Nothing has changed yet."
    rows = {row.name: row.level for row in feature_rows(services.cluster)}
    body = {"data": [{"feature_name": name, "level": wanted, "upgrade_type": kind}]}
    is_down = kind != UpgradeType.UPGRADE.name
    view = ConfirmView(
        back="Features",
        back_url="/features",
        action="/features",
        button="Change the level",
        changes=[
            (name, rows.get(name, UNKNOWN), level_text(name, wanted) if wanted is not None else level.strip()[:40])
        ],
        consequences=["What only the higher level can say is lost."] if is_down else ["There may be no way back down."],
        curl=curl(request, services, "PATCH", "features", body),
        fields=[("name", name), ("level", level), ("kind", kind)],
        dangerous=kind == UpgradeType.UNSAFE_DOWNGRADE.name,
        verdict=verdict,
        error=error,
    )
    return render(request, "confirm.html", status, page=page_of(request, "Change a feature", "/features"), view=view)


@router.post("/brokers/{broker_id}/unregister")
async def unregister(
    request: Request,
    caller: Admin,
    broker_id: int,
    confirmed: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
    force: Annotated[str, Form()] = "",
) -> Response:
    """Show what forgetting a broker does; with confirmed=yes and its id typed forget it.

    `force` comes from a page that showed why the broker should stay: reasons that are newer refuse the change.
    """
    services = services_of(request)
    image = services.cluster.image
    broker = known_broker(image, broker_id)
    use = broker_use(image, broker_id)
    error, status = "", 200
    if confirmed and typed.strip() != str(broker_id):
        error, status = f"'{typed.strip()[:40]}' is not the broker's id. Nothing has changed.", 422
    elif confirmed:
        try:
            offset = await services.actions.brokers.unregister(caller, broker_id, force=force == "yes")
        except BrokerInUseError as refused:
            error, status = str(refused), 409
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            note = f"Broker {broker_id} is forgotten since offset {offset}."
            return go_to(request, "/brokers", Flash("good", note))
    view = ConfirmView(
        back=f"Broker {broker_id}",
        back_url=f"/brokers/{broker_id}",
        action=f"/brokers/{broker_id}/unregister",
        button="Forget the broker",
        changes=[
            ("Registration", "fenced" if broker.fenced else "active", "none"),
            ("Partitions it leads", str(use.leaders), "led by others, or by nobody"),
            ("Replicas assigned to it", str(use.replicas), "the same: no broker holds them"),
        ],
        checks=[
            (not use.is_live, f"Broker {broker_id} is live" if use.is_live else f"Broker {broker_id} is not live"),
            (not use.replicas, use.reasons[-1] if use.replicas else "It holds no replicas"),
        ],
        consequences=["This is for a broker that is gone for good. A live one stays away until it is started again."],
        fields=[("force", "yes")] if use.is_any else [],
        curl=curl(request, services, "POST", f"brokers/{broker_id}:unregister{'?force=true' if use.is_any else ''}"),
        type_name=str(broker_id),
        dangerous=True,
        error=error,
    )
    title = f"Forget broker {broker_id}"
    return render(request, "confirm.html", status, page=page_of(request, title, "/brokers"), view=view)
