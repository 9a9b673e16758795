"""The logins of a node's listeners, from its settings, SCRAM users and delegation tokens."""

import base64
from collections.abc import Callable, Iterable

from kraft_core.controller.access.delegation_token_control_manager import token_hmac
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS
from kraft_core.protocol.framing import RequestHeader
from kraft_core.protocol.messages import ApiVersionsRequest
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.raft.raft_log import RaftLog
from kraft_core.security.listener_security import CredentialOf, ServerSecurity
from kraft_core.security.scram import TokenLogin, TokenOf, no_tokens
from kraft_core.server.api_versions import ApiVersionsAnswers
from kraft_core.server.clock import Clock
from kraft_core.server.config.node_security import NodeSecurity
from kraft_core.server.network.sasl_session import ListenerLogin
from kraft_core.server.network.scram_credentials import ScramCredentials, UsualIterations, find_in

LoginOf = Callable[[str], ListenerLogin]


def listener_logins(
    security: NodeSecurity,
    api_versions: ApiVersionsAnswers,
    image: Callable[[], MetadataImage],
    token_of: TokenOf = no_tokens,
    log: RaftLog | None = None,
    bootstrap: Iterable[MetadataRecord] = (),
) -> LoginOf:
    """Return a function from a listener's name to its login.

    `image` returns the newest committed image, `token_of` delegation tokens. A controller also passes its log and the
    records of bootstrap.checkpoint, since it needs its peers' SCRAM users before it has an image.
    """
    credential_of: CredentialOf = lambda mechanism, name: find_in(image(), mechanism, name)  # noqa: E731  # typed here
    if log is not None and any(map(_has_scram, security.listeners.values())):
        credential_of = ScramCredentials(image, log, bootstrap).find

    usual_iterations = UsualIterations(image)

    def answer(header: RequestHeader, request: ApiVersionsRequest | None) -> bytes:
        return api_versions.unsupported(header) if request is None else api_versions.answer(header, request)

    def login_of(name: str) -> ListenerLogin:
        listener = security.of_listener(name)
        return ListenerLogin(listener, listener.mechanisms(credential_of, token_of, usual_iterations), answer)

    return login_of


def token_finder(image: Callable[[], MetadataImage], secret_key: str | None, clock: Clock) -> TokenOf:
    """Return a lookup of delegation tokens in the newest image; without `delegation.token.secret.key` it finds none.

    An expired token is not found. (Kafka accepts it and ends the session at the next request.)
    """
    if secret_key is None:
        return no_tokens

    def token_of(token_id: str) -> TokenLogin | None:
        token = image().delegation_tokens.get(token_id)
        if token is None:
            return None
        lifetime_ms = min(token.expiration_timestamp, token.max_timestamp) - clock.now_ms()
        if lifetime_ms <= 0:
            return None
        _, _, owner = token.owner.partition(":")
        return TokenLogin(owner, base64.b64encode(token_hmac(secret_key, token_id)).decode(), lifetime_ms)

    return token_of


def _has_scram(security: ServerSecurity) -> bool:
    return any(mechanism in SCRAM_MECHANISMS for mechanism in security.max_reauth_ms)
