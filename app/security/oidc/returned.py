"""Parameters of the redirect from an OpenID issuer."""

import datetime as dt
from dataclasses import dataclass
from typing import Final

LOGIN_LIFETIME: Final = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Parameters of the issuer's redirect, and the cookie of the login."""

    cookie: str
    state: str = ""
    code: str = ""
    error: str = ""
    issuer: str | None = None
