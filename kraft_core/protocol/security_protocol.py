"""The security protocols of listeners, with their numbers on the wire and in the log. Source: SecurityProtocol."""

from enum import IntEnum
from typing import Final


class SecurityProtocol(IntEnum):
    """How a listener authenticates and encrypts: SASL or not, TLS or not."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


SECURITY_PROTOCOL_IDS: Final = frozenset(map(int, SecurityProtocol))
