"""Client quotas: setting and removing one, with a preview."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.access_control import BYTE_RATE, ENTITY_TYPES, TITLE, entity_text, quotas_page, value_words
from app.pages.config_values import BYTES, parsed
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import amount
from app.services import Admin, services_of
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.quotas import ClientQuotaEntity

router = APIRouter(include_in_schema=False, prefix="/rights/quotas")


def read_entity(fields: Mapping[str, str]) -> ClientQuotaEntity:
    """Return the entity of a form: a name or the default for each type that is given. Raises ValueError in words."""
    entity = []
    for kind in sorted(ENTITY_TYPES):
        name, is_default = fields.get(kind, "").strip(), bool(fields.get(f"{kind}-default"))
        if name and is_default:
            raise ValueError(phrase("Either a name or the default of %(kind)s, not both.", kind=kind))
        if name or is_default:
            entity.append((kind, name or None))
    if not entity:
        raise ValueError(
            phrase("An entity is required: %(types)s, by name or the default.", types=", ".join(ENTITY_TYPES))
        )
    return tuple(entity)


def read_value(key: str, text: str) -> float | None:
    """Return the value of a quota, None for empty text; bytes may have a unit. Raises ValueError in words."""
    plain = parsed(text, BYTES if key.endswith(BYTE_RATE) else None)
    try:
        value = float(plain) if plain else None
    except ValueError:
        raise ValueError(phrase("'%(text)s' is not a number.", text=text[:40])) from None
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(phrase("'%(text)s' is not a number above 0.", text=text[:40]))
    return value


@router.post("")
async def alter_quota(request: Request, caller: Admin) -> Response:
    """Preview a quota as the controller validates it; with confirmed=yes set it, or remove it if there is no value."""
    services = services_of(request)
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    key = form.get("key", "")
    try:
        entity, value = read_entity(form), read_value(key, form.get("value", "").strip())
    except ValueError as error:
        given = {f"quota-{name}": text for name, text in form.items()}
        return quotas_page(request, sentence_of(error), FORM_REFUSED, given)

    async def alter(*, validate_only: bool) -> Flash:
        offset = await services.actions.quotas.alter(caller, entity, {key: value}, validate_only=validate_only)
        about = {"key": key, "entity": entity_text(entity), "offset": str(offset)}
        if value is None:
            return Flash("good", phrase("%(key)s of %(entity)s removed at offset %(offset)s.", **about))
        text = phrase("%(key)s of %(entity)s set to %(value)s at offset %(offset)s.", value=amount(value), **about)
        return Flash("good", text)

    quotas = services.cluster.image.client_quotas.get(entity)
    now = None if quotas is None else quotas.get(key)
    body = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "data": [{"key": key, "value": value}],
    }
    view = ConfirmView(
        title=phrase("Change client quota"),
        active="/rights",
        back=TITLE,
        back_url="/rights/quotas",
        action="/rights/quotas",
        button=phrase("Remove quota") if value is None else phrase("Set quota"),
        changes=[
            (
                phrase("%(key)s of %(entity)s", key=key, entity=entity_text(entity)),
                _value_text(key, now),
                _value_text(key, value),
            )
        ],
        curl=cluster_curl(request, "POST", "client-quotas:alter", body),
        fields=[(name, given) for name, given in form.items() if name not in {"csrf_token", "confirmed"}],
        dangerous=value is None,
    )
    return await preview_or_apply(
        request,
        view,
        confirmed=bool(form.get("confirmed")),
        apply=lambda: alter(validate_only=False),
        dry_run=lambda: alter(validate_only=True),
    )


def _value_text(key: str, value: float | None) -> str:
    if value is None:
        return phrase("none")
    words = value_words(key, value)
    return f"{amount(value)} ({words})" if words else amount(value)
