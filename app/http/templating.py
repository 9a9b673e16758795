"""Templates and static files, in the wheel or in the checkout.

A template fails at once on a name that its view model lacks (StrictUndefined). Static files are read once and served
from memory by name, so no path can leave the folder. Their URLs carry a digest of the content, so browsers may cache
them indefinitely.
"""

import base64
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.http.compression import BYTES_MIN, STATIC_LEVEL, accepts_gzip, gzipped
from app.http.entity_tags import is_among, weak
from app.http.errors import NotFoundError
from app.texts import gettext, ngettext, shown

PACKAGE: Final = Path(__file__).resolve().parents[1]
CHECKOUT: Final = PACKAGE.parent
FOREVER: Final = "public, max-age=31536000, immutable"
REVALIDATE: Final = "no-cache"


def folder(name: str) -> Path:
    """Return the folder `templates` or `static`: the wheel's, else the checkout's."""
    installed = PACKAGE / f"_{name}"
    return installed if installed.is_dir() else CHECKOUT / name


def make_environment() -> Environment:
    """Return the template environment: it escapes everything, rejects undefined names and translates what it prints."""
    made = Environment(
        loader=FileSystemLoader(folder("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
        extensions=["jinja2.ext.i18n"],
    )
    made.policies["ext.i18n.trimmed"] = True
    made.newstyle_gettext = True  # type: ignore[attr-defined]  # the extension i18n adds it
    made.globals.update(gettext=gettext, ngettext=ngettext, _=gettext)
    return made


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it is served."""

    content: bytes
    media_type: str
    digest: str
    integrity: str


class StaticFiles:
    """The static files by name, with htmx from the package that ships it."""

    def __init__(self) -> None:
        self._files: dict[str, StaticFile] = {}
        self._compressed: dict[str, bytes] = {}
        for path in sorted(folder("static").iterdir()):
            if path.is_file() and not path.name.startswith("."):
                self._add(path.name, path.read_bytes())
        htmx = files("js_lib_htmx") / "static" / "htmx"
        self._add("htmx.min.js", (htmx / "htmx.min.js").read_bytes())

    def _add(self, name: str, content: bytes) -> None:
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        sha256 = hashlib.sha256(content)
        integrity = f"sha256-{base64.b64encode(sha256.digest()).decode()}"
        self._files[name] = StaticFile(content, media_type, sha256.hexdigest()[:16], integrity)

    @property
    def files(self) -> Mapping[str, StaticFile]:
        """All files by name."""
        return self._files

    def url(self, name: str) -> str:
        """Return the file's URL with its digest. Raises KeyError for an unknown name."""
        return f"/static/{name}?v={self._files[name].digest}"

    def _packed(self, request: Request, file: StaticFile) -> bytes | None:
        """Return the file compressed, once for all requests; None where the client or the size forbids it."""
        is_text = file.media_type.startswith(("text/", "image/svg")) and len(file.content) >= BYTES_MIN
        if not is_text or not accepts_gzip(request.headers.get("accept-encoding", "")):
            return None
        if file.digest not in self._compressed:
            self._compressed[file.digest] = gzipped(file.content, STATIC_LEVEL)
        return self._compressed[file.digest]

    def router(self) -> APIRouter:
        """Return the route that serves the files."""
        router = APIRouter()

        @router.get("/static/{name}", include_in_schema=False)
        async def static_file(name: str, request: Request) -> Response:
            found = self._files.get(name)
            if found is None:
                raise NotFoundError("There is no such file.")
            etag, packed = f'"{found.digest}"', self._packed(request, found)
            headers = {
                "ETag": etag if packed is None else weak(etag),
                "Cache-Control": FOREVER if request.query_params.get("v") == found.digest else REVALIDATE,
                "Vary": "Accept-Encoding",
            }
            if is_among(etag, request.headers.get("if-none-match")):
                return Response(status_code=304, headers=headers)
            if packed is not None:
                headers["Content-Encoding"] = "gzip"
            return Response(packed or found.content, media_type=found.media_type, headers=headers)

        return router


@lru_cache(maxsize=1)
def static_files() -> StaticFiles:
    """Return the static files of this process, read once. The route serves them, and pages link to them."""
    return StaticFiles()
