"""The clusters of this process: their state side by side, and how one is added, changed and removed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.clusters import ClusterTest
from app.cluster.known_clusters import COLORS, ClusterError, ClusterSpec, config_files, known_cluster, spec_of
from app.clusters import NotStarted, clusters_of
from app.http.cluster_paths import HOME, root_of_key
from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_of, render
from app.pages.live import live_state
from app.security.roles import Role
from app.services import Anyone, Owner, Services, principal_of, services_of
from app.texts import joined, phrase

router = APIRouter(include_in_schema=False, prefix="/clusters")

TITLE: Final = phrase("Clusters")
LABELS: Final = {
    "name": phrase("Name"),
    "bootstrap_controllers": phrase("Controllers"),
    "command_config": phrase("Client properties"),
    "schema_registry_url": phrase("Schema registry"),
    "color": phrase("Colour"),
}
FIELDS: Final = ("key", *LABELS)
OPTIONAL: Final = ("command_config", "schema_registry_url")


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster. `url` opens its dashboard; `state` is that of the frame; the counts are None before they are known.

    `is_added` is false for the cluster of the settings, which pages cannot change.
    """

    key: str
    url: str
    name: str
    color: str
    cluster_id: str
    leader: str
    state: str
    notice: str
    brokers: int | None
    topics: int | None
    offline: int | None
    is_added: bool

    @classmethod
    def of(cls, services: Services) -> "ClusterRow":
        """Return the row of a cluster."""
        cluster, live = services.cluster, live_state(services.cluster)
        totals = cluster.topic_table.totals() if cluster.freshness.is_ready else None
        return cls(
            key=services.key or HOME,
            url=f"{root_of_key(services.key or HOME)}/",
            name=services.settings.cluster_name,
            color=services.settings.cluster_color,
            cluster_id=cluster.cluster_id or "",
            leader=live.leader,
            state=live.state,
            notice=cluster.foreign or live.notice,
            brokers=None if totals is None else len(cluster.image.cluster.brokers),
            topics=None if totals is None else len(cluster.image.topics.by_id),
            offline=None if totals is None else totals.offline,
            is_added=bool(services.key),
        )

    @classmethod
    def of_not_started(cls, found: NotStarted) -> "ClusterRow":
        """Return the row of a cluster that cannot be started. Its link leads to its form."""
        spec = found.spec
        return cls(
            key=spec.key,
            url=f"/clusters/{spec.key}/change",
            name=spec.name,
            color=spec.color,
            cluster_id="",
            leader="",
            state="lost",
            notice=found.trouble,
            brokers=None,
            topics=None,
            offline=None,
            is_added=True,
        )


@dataclass(frozen=True, slots=True)
class ClustersView:
    """Model of clusters.html; `given` are the fields of the form, which is about a known cluster if `is_change`."""

    rows: Sequence[ClusterRow]
    colors: Sequence[str]
    configs: Sequence[str]
    configs_folder: str
    given: Mapping[str, str]
    refused: str
    is_change: bool


def _page(request: Request, given: Mapping[str, str], refused: str = "", *, is_change: bool = False) -> Response:
    user, found = principal_of(request), clusters_of(request)
    folder = found.home.settings.client_configs_dir
    rows = [ClusterRow.of(each) for each in found.seen_by(user)]
    if user.own_role >= Role.ADMIN:  # the reason names a path of the server
        rows += [ClusterRow.of_not_started(each) for each in found.not_started.values()]
    view = ClustersView(
        rows,
        COLORS,
        config_files(folder),
        str(folder),
        {field: given.get(field, "") for field in FIELDS},
        refused,
        is_change,
    )
    status = FORM_REFUSED if refused else 200
    return render(request, "clusters.html", status, page=page_of(request, TITLE, "/clusters"), view=view)


def read_spec(form: Mapping[str, str]) -> ClusterSpec:
    """Return the cluster of a form. Addresses are separated by commas, spaces or lines."""
    addresses = tuple(each for each in re.split(r"[\s,]+", form.get("bootstrap_controllers", "")) if each)
    return ClusterSpec(
        key=form.get("key", "").strip(),
        name=form.get("name", "").strip(),
        bootstrap_controllers=addresses,
        command_config=form.get("command_config", "").strip(),
        schema_registry_url=form.get("schema_registry_url", "").strip(),
        color=form.get("color", ""),
    )


def _shown(spec: ClusterSpec, field: str) -> str:
    value = getattr(spec, field)
    return joined(", ", value) if isinstance(value, tuple) else value or phrase("none")


async def _known(request: Request, key: str) -> ClusterSpec:
    return spec_of(await services_of(request).database.read(known_cluster, key))


@router.get("")
async def clusters_page(request: Request, _caller: Anyone) -> Response:
    """Return the page."""
    return _page(request, {})


@router.get("/{key}/change")
async def change_page(request: Request, _caller: Owner, key: str) -> Response:
    """Return the page with the form of an added cluster."""
    spec = await _known(request, key)
    given = {"key": key, "name": spec.name, "command_config": spec.command_config, "color": spec.color}
    given["bootstrap_controllers"] = ", ".join(spec.bootstrap_controllers)
    given["schema_registry_url"] = spec.schema_registry_url
    return _page(request, given, is_change=True)


@router.post("")
async def put_cluster(request: Request, caller: Owner) -> Response:
    """Test a cluster and preview it; with confirmed=yes add or change it."""
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    spec, is_new = read_spec(form), not form.get("is_change")
    before = None if is_new else await _known(request, spec.key)
    actions = clusters_of(request).actions
    confirmed, checks = bool(form.get("confirmed")), list[tuple[bool, str]]()
    if not confirmed:
        try:
            tested, _ = await actions.put(caller, spec, is_new=is_new, validate_only=True)
        except ClusterError as refused:
            return _page(request, form, refused.message, is_change=not is_new)
        checks = _checks(tested)

    async def apply() -> Flash | Response:
        try:
            await actions.put(caller, spec, is_new=is_new)
        except ClusterError as refused:
            return _page(request, form, refused.message, is_change=not is_new)
        return Flash("good", phrase("Cluster %(name)s saved.", name=spec.name))

    body = {"name": spec.name, "bootstrap_controllers": list(spec.bootstrap_controllers), "color": spec.color}
    view = ConfirmView(
        title=phrase("Add cluster %(name)s", name=spec.name)
        if is_new
        else phrase("Change cluster %(name)s", name=spec.name),
        active="/clusters",
        back=TITLE,
        back_url="/clusters",
        action="/clusters",
        button=phrase("Save cluster"),
        changes=[
            (label, phrase("none") if before is None else _shown(before, field), _shown(spec, field))
            for field, label in LABELS.items()
            if before is None or getattr(before, field) != getattr(spec, field)
        ],
        checks=checks,
        consequences=[phrase("Its pages begin with %(address)s.", address=f"{root_of_key(spec.key)}/")],
        fields=[(name, value) for name, value in form.items() if name in {*FIELDS, "is_change"}],
        curl=curl(
            request,
            "PUT",
            f"cluster-connections/{spec.key}",
            body | {name: value for name in OPTIONAL if (value := getattr(spec, name))},
        ),
    )
    return await preview_or_apply(request, view, confirmed=confirmed, apply=apply)


def _checks(tested: ClusterTest) -> list[tuple[bool, str]]:
    id_text = phrase("Its controllers belong to cluster %(id)s.", id=tested.cluster_id)
    answers = [
        (not error, phrase("%(place)s answers", place=place) if not error else f"{place}: {error}")
        for place, error in tested.answers.items()
    ]
    registry = phrase("The schema registry %(url)s answers.", url=tested.registry)
    return [(True, id_text), *answers, *([(True, registry)] if tested.registry else [])]


@router.post("/{key}/remove")
async def remove_cluster(
    request: Request,
    caller: Owner,
    key: str,
    confirmed: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
) -> Response:
    """Preview that a cluster is removed from this process; with confirmed=yes remove it."""
    spec = await _known(request, key)
    actions = clusters_of(request).actions
    error = ""
    try:
        await actions.remove(caller, key, validate_only=True)
    except ClusterError as refused:
        error = refused.message

    async def apply() -> Flash:
        await actions.remove(caller, key)
        return Flash("good", phrase("Cluster %(name)s removed. Nothing has changed on it.", name=spec.name))

    view = ConfirmView(
        title=phrase("Remove cluster %(name)s", name=spec.name),
        active="/clusters",
        back=TITLE,
        back_url="/clusters",
        action=f"/clusters/{key}/remove",
        button=phrase("Remove cluster"),
        changes=[
            (phrase("Cluster %(name)s", name=spec.name), _shown(spec, "bootstrap_controllers"), phrase("removed"))
        ],
        consequences=[
            phrase("Nothing changes on the cluster itself."),
            phrase("Its reports, schedules, plans and own API tokens are deleted here. The audit log is kept."),
        ],
        curl=curl(request, "DELETE", f"cluster-connections/{key}"),
        type_name=key,
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, typed=typed, error=error)
