"""The list of topics, and creating one, with a validation that changes nothing and every error beside its field."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.cluster.log_dirs import LogDirs, topic_size
from app.cluster.topic_table import PROBLEMS, SORT_KEYS, Problem, SortKey, TopicRow, TopicTable
from app.http.errors import FORM_REFUSED, UNEXPECTED
from app.http.locations import htmx_push
from app.pages.columns import columns_of
from app.pages.confirm import cluster_curl
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, counted, duration, go_to, page_of, refusal, render, rows_on_page, whole_number
from app.pages.shared_parts import shared
from app.pages.topic_rates import RateView, rate_view
from app.services import PastReader, TopicCreator, services_of
from app.texts import joined, phrase
from kraft_core.configs.config_resource import TOPIC
from kraft_core.configs.effective_config import NodeConfigs, topic_config
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False)

ROWS: Final = 50
PROBLEM_WORDS: Final[Mapping[str, str]] = {
    "offline": phrase("offline"),
    "under-min": phrase("under-min"),
    "under-replicated": phrase("under-replicated"),
    "reassigning": phrase("reassigning"),
    "not-preferred": phrase("not-preferred"),
}
TIME_MAX_MS: Final = 253_402_300_800_000  # year 10,000
SIZES_SECONDS: Final = 0.03  # how long the list waits for sizes that brokers have not told yet
FIELD_OF: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "name",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "name",
    ErrorCode.INVALID_PARTITIONS: "partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
    ErrorCode.INVALID_CONFIG: "configs",
}
"""The field of the form that an error of the controller is about; all others are about the form as a whole."""


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """What the row of a topic shows beside its state. `size_bytes` counts all replicas, None if no broker told it.

    `changed_at` is the time of its last change, None if the kept changes have none.
    """

    cleanup_policy: str
    retention: str
    size_bytes: int | None
    changed_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class TopicsView:
    """Model of topics.html: one page of the list, with the search and sort order of its address.

    `details` has an entry for each row, by name. `silent` says why active brokers have told no sizes.
    `history_begins` is the offset of the first kept change. `rates` has entries by name if their column is shown.
    """

    search: str
    problem: str
    internal: bool
    sort: SortKey
    descending: bool
    rows: Sequence[TopicRow]
    matching: int
    topics: int
    page: int
    pages: int
    details: Mapping[str, TopicDetails]
    silent: str = ""
    history_begins: int = 0
    rates: Mapping[str, RateView] = field(default_factory=dict)
    problems: Sequence[str] = PROBLEMS
    problem_words: Mapping[str, str] = field(default_factory=lambda: PROBLEM_WORDS)

    def _filters(self) -> dict[str, str]:
        given = {"q": self.search, "problem": self.problem, "internal": "" if self.internal else "no"}
        return {name: value for name, value in given.items() if value}

    @property
    def page_query(self) -> str:
        """The query for another page of the same list, to be completed with page=N."""
        order: dict[str, str] = {} if (self.sort, self.descending) == ("name", False) else {"sort": self.sort}
        if self.descending:
            order["desc"] = "1"
        query = urlencode({**self._filters(), **order})
        return f"{query}&" if query else ""

    @property
    def query(self) -> str:
        """The query for this same page."""
        return f"{self.page_query}page={self.page}"

    def sort_query(self, key: SortKey) -> str:
        """Return the query that sorts by `key`. A second click reverses the order.

        Trouble starts with the worst, changes with the newest.
        """
        descending = not self.descending if key == self.sort else key in {"trouble", "changed"}
        return urlencode({**self._filters(), "sort": key, **({"desc": "1"} if descending else {})})


async def current_topics(request: Request) -> TopicsView:
    """Return the page of the request's address, with the sizes that brokers have told so far."""
    cluster = services_of(request).cluster
    log_dirs = await cluster.log_dirs.of(cluster.image.cluster.brokers.values(), SIZES_SECONDS)
    rows = rows_on_page(request, ROWS)
    view = topics_of(cluster, request.query_params, rows, log_dirs)
    if cluster.past is not None or "rate" not in columns_of(request, "topics"):
        return view
    shown = [topic for row in view.rows if (topic := cluster.image.topics.topic(row.name)) is not None]
    # a download of all pages does not ask for the ends of all logs
    known = cluster.topic_rates.known(shown) if rows > ROWS else await cluster.topic_rates.of(shown, SIZES_SECONDS)
    return replace(view, rates={topic.name: rate_view(known[topic.id]) for topic in shown})


def topics_of(
    cluster: Cluster, query: Mapping[str, str], rows: int, log_dirs: Mapping[int, LogDirs] | None = None
) -> TopicsView:
    """Return the page of an address, with what the cluster knows of configs and changes."""
    view = topics_view(
        cluster.image,
        cluster.topic_table,
        query,
        rows,
        log_dirs,
        nodes=cluster.topic_defaults(),
        changed=cluster.topic_changes,
    )
    return replace(view, history_begins=cluster.history.oldest_offset)


def topics_view(
    image: MetadataImage,
    table: TopicTable,
    query: Mapping[str, str],
    rows: int = ROWS,
    log_dirs: Mapping[int, LogDirs] | None = None,
    *,
    nodes: NodeConfigs | None = None,
    changed: Mapping[UUID, int] | None = None,
) -> TopicsView:
    """Return the page of an address; parameters that are not valid are ignored.

    `nodes` has the configs that topics inherit, `changed` the times of their last changes.
    """
    answers, times = log_dirs or {}, changed or {}
    inherited = nodes or NodeConfigs.of(image.configs)
    table.refresh(image)
    sort: SortKey = next((key for key in SORT_KEYS if key == query.get("sort")), "name")
    problem: Problem | None = next((each for each in PROBLEMS if each == query.get("problem")), None)
    search, descending, internal = query.get("q", "")[:249], bool(query.get("desc")), query.get("internal") != "no"
    found = table.page(
        search=search,
        sort=sort,
        descending=descending,
        problem=problem,
        internal=internal,
        page=whole_number(query.get("page", "1"), 1, 10**9) or 1,
        page_size=rows,
        changed=times,
    )
    return TopicsView(
        search,
        problem or "",
        internal,
        sort,
        descending,
        found.rows,
        found.matching,
        found.topics,
        found.page,
        found.pages,
        {row.name: _details(row, image, inherited, times, answers) for row in found.rows},
        _silent(image, answers),
    )


def _details(
    row: TopicRow,
    image: MetadataImage,
    nodes: NodeConfigs,
    changed: Mapping[UUID, int],
    answers: Mapping[int, LogDirs],
) -> TopicDetails:
    configs, changed_ms = image.configs.of(TOPIC, row.name), changed.get(row.id, 0)
    retention_ms = int(topic_config("retention.ms", configs, nodes) or -1)
    return TopicDetails(
        topic_config("cleanup.policy", configs, nodes) or phrase("none"),
        phrase("no limit") if retention_ms < 0 else duration(retention_ms),
        topic_size(row.name, answers.values()),
        dt.datetime.fromtimestamp(changed_ms / 1000, dt.UTC) if 0 < changed_ms < TIME_MAX_MS else None,
    )


def _silent(image: MetadataImage, answers: Mapping[int, LogDirs]) -> str:
    """Return why sizes are missing, for each active broker that has not told any."""
    found = []
    for broker_id, broker in sorted(image.cluster.brokers.items()):
        answer = answers.get(broker_id)
        if answer is not None and answer.asked_at is None and not broker.fenced:
            why = answer.error or phrase("not answered yet")
            found.append(phrase("broker %(id)s (%(why)s)", id=broker_id, why=why))
    return joined(", ", found)


@router.get("/topics")
async def topics(request: Request, _caller: PastReader) -> Response:
    """Return the list."""
    view = await current_topics(request)
    return render(request, "topics.html", page=page_of(request, phrase("Topics"), "/topics"), view=view)


@router.get("/fragments/topics")
@shared
async def topics_fragment(request: Request, _caller: PastReader) -> Response:
    """Return the list without its frame. A search changes the address too, so that it can be shared."""
    view = await current_topics(request)
    response = render(request, "_topics.html", view=view)
    response.headers.update(htmx_push(f"/topics?{view.query}"))
    return response


@dataclass(frozen=True, slots=True)
class TopicPreview:
    """The topic as the controller would create it."""

    partitions: int
    replication_factor: int
    curl: str


@dataclass(frozen=True, slots=True)
class TopicForm:
    """Model of create_topic.html: the fields as typed, errors by field ("": the whole form), the validated topic."""

    name: str = ""
    partitions: str = ""
    replication_factor: str = ""
    configs: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    preview: TopicPreview | None = None


@dataclass(frozen=True, slots=True)
class TopicWish:
    """The form after reading; -1 means the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


def read_form(form: TopicForm) -> tuple[TopicWish, dict[str, str]]:
    """Return what was typed, and an error for each field that cannot be read. The controller validates the rest."""
    errors: dict[str, str] = {}

    def count(name: str, text: str, most: int) -> int:
        if not text.strip():
            return -1
        value = whole_number(text, 1, most)
        if value is None:
            given = text.strip()[:40]
            errors[name] = phrase("'%(given)s' is not a whole number from 1 to %(most)s.", given=given, most=most)
        return value or -1

    configs: dict[str, str | None] = {}
    for line in form.configs.splitlines():
        key, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not key.strip():
            errors["configs"] = phrase("'%(given)s' is not key=value.", given=line.strip()[:80])
        elif key.strip() in configs:
            errors["configs"] = phrase("'%(given)s' is listed twice.", given=key.strip()[:80])
        configs[key.strip()] = value.strip()
    wish = TopicWish(
        form.name.strip(),
        count("partitions", form.partitions, 2**31 - 1),
        count("replication_factor", form.replication_factor, 2**15 - 1),
        configs,
    )
    if not wish.name:
        errors["name"] = phrase("The name is empty.")
    return wish, errors


def create_body(wish: TopicWish) -> dict[str, object]:
    """Return the body of the same change over REST."""
    body: dict[str, object] = {"topic_name": wish.name}
    if wish.partitions > 0:
        body["partitions_count"] = wish.partitions
    if wish.replication_factor > 0:
        body["replication_factor"] = wish.replication_factor
    if wish.configs:
        body["configs"] = [{"name": name, "value": value} for name, value in wish.configs.items()]
    return body


@router.get("/create-topic")
async def create_topic_form(request: Request, _caller: TopicCreator) -> Response:
    """Return the empty form."""
    return render(
        request, "create_topic.html", page=page_of(request, phrase("Create topic"), "/topics"), form=TopicForm()
    )


@router.post("/topics")
async def create_topic(
    request: Request,
    caller: TopicCreator,
    name: Annotated[str, Form()] = "",
    partitions: Annotated[str, Form()] = "",
    replication_factor: Annotated[str, Form()] = "",
    configs: Annotated[str, Form()] = "",
    action: Annotated[str, Form()] = "create",
) -> Response:
    """Create a topic, or with action=check only validate it."""
    services = services_of(request)
    typed = TopicForm(name, partitions, replication_factor, configs)
    wish, errors = read_form(typed)
    only_check = action == "check"
    if errors:
        return _form(request, typed, errors=errors)
    try:
        made = await services.actions.topics.create(
            caller,
            wish.name,
            partitions_count=wish.partitions,
            replication_factor=wish.replication_factor,
            configs=wish.configs,
            validate_only=only_check,
        )
    except REFUSALS as refused:
        text, status = refusal(refused)
        where = FIELD_OF.get(refused.code, "") if isinstance(refused, KafkaError) else ""
        return _form(request, typed, errors={where: text}, status=status if status >= UNEXPECTED else FORM_REFUSED)
    if only_check:
        curl = cluster_curl(request, "POST", "topics", create_body(wish))
        preview = TopicPreview(made.partitions_count, made.replication_factor, curl)
        return _form(request, typed, preview=preview, status=200)
    note = phrase(
        "Topic %(topic)s created with %(partitions)s at offset %(offset)s.",
        topic=wish.name,
        partitions=counted(made.partitions_count, "partition"),
        offset=made.offset,
    )
    return go_to(request, f"/topics/{wish.name}", Flash("good", note))


def _form(
    request: Request,
    typed: TopicForm,
    *,
    errors: Mapping[str, str] | None = None,
    preview: TopicPreview | None = None,
    status: int = FORM_REFUSED,
) -> Response:
    """Return the form again; for htmx, its fields only."""
    form = TopicForm(typed.name, typed.partitions, typed.replication_factor, typed.configs, errors or {}, preview)
    if request.headers.get("HX-Request"):
        return render(request, "_topic_fields.html", FORM_REFUSED if status >= UNEXPECTED else status, form=form)
    return render(
        request, "create_topic.html", status, page=page_of(request, phrase("Create topic"), "/topics"), form=form
    )
