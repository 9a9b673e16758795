"""Parsing the argument of `format --add-scram` into a record (KIP-900).

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]

Salt and salted password are in base64; a value may be in double quotes; a comma always ends a value. Messages never
contain a value, since any may be a misplaced secret.
Source: ScramParser, Kafka 4.3.1.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from kraft_core.image.scram_mechanism import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BITS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salt_of,
)
from kraft_core.protocol.metadata_records import UserScramCredentialRecord
from kraft_core.storage.files import StorageError


class ScramArgumentError(StorageError):
    """The argument is invalid; the message is one line without secrets."""


@dataclass(frozen=True, slots=True)
class PerMechanismData:
    """One parsed argument. Either `password`, or `salt` and `salted_password`; a missing salt is generated."""

    mechanism: ScramMechanism
    name: str
    salt: bytes | None = field(default=None, repr=False)
    iterations: int = MIN_ITERATIONS
    password: str | None = field(default=None, repr=False)
    salted_password: bytes | None = field(default=None, repr=False)

    def to_record(self) -> UserScramCredentialRecord:
        """Compute the keys. Raises ScramArgumentError for too few or too many iterations."""
        if self.iterations < MIN_ITERATIONS:
            raise self._bad_iterations(">=", MIN_ITERATIONS)
        if self.iterations > MAX_ITERATIONS:
            raise self._bad_iterations("<=", MAX_ITERATIONS)
        salt = salt_of(secrets.randbits(SALT_BITS)) if self.salt is None else self.salt
        salted_password = self.salted_password
        if salted_password is None:
            assert self.password is not None, "the parser requires one of the two"
            salted_password = self.mechanism.salted_password(self.password, salt, self.iterations)
        return self.mechanism.record(self.name, salt, salted_password, self.iterations)

    def _bad_iterations(self, relation: str, limit: int) -> ScramArgumentError:
        return ScramArgumentError(
            f"The 'iterations' value must be {relation} {limit} for add-scram using {self.mechanism.name}"
        )


def parse_scram_arguments(arguments: Iterable[str]) -> list[UserScramCredentialRecord]:
    """Return a record for each argument. Raises ScramArgumentError."""
    return [parse_scram_argument(argument).to_record() for argument in arguments]


def parse_scram_argument(argument: str) -> PerMechanismData:
    """Parse one argument. Raises ScramArgumentError for a missing, unknown or unreadable part."""
    mechanism, text = split_mechanism(argument)
    components = dict(split_component(part) for part in text.split(","))
    name = components.pop("name", None)
    if name is None:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    salt_text = components.pop("salt", None)
    salt = None if salt_text is None else _base64("salt", salt_text)
    iterations = _integer(components.pop("iterations", str(MIN_ITERATIONS)))
    password = components.pop("password", None)
    salted_text = components.pop("saltedpassword", None)
    salted_password = None
    if password is None:
        if salted_text is None:
            raise ScramArgumentError("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt is None:
            raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted_password = _base64("saltedPassword", salted_text)
    if components:
        raise ScramArgumentError(f"Unknown SCRAM configurations: {', '.join(sorted(components))}")
    return PerMechanismData(mechanism, name, salt, iterations, password, salted_password)


def split_mechanism(argument: str) -> tuple[ScramMechanism, str]:
    """Split "SCRAM-SHA-256=[…]" into the mechanism and the content of the brackets."""
    name, equals, text = argument.strip().partition("=")
    if not equals:
        raise ScramArgumentError("Failed to find equals sign in SCRAM argument")
    mechanism = SCRAM_MECHANISMS.get(name)
    if mechanism is None:
        raise ScramArgumentError(f"The add-scram mechanism {name} is not supported.")
    if not text.startswith("["):
        raise ScramArgumentError("Expected configuration string to start with [")
    if not text.endswith("]") or text == "[":
        raise ScramArgumentError("Expected configuration string to end with ]")
    return mechanism, text[1:-1]


def split_component(component: str) -> tuple[str, str]:
    """Split "name=value", removing one pair of double quotes from the value."""
    name, equals, value = component.partition("=")
    if not equals:
        raise ScramArgumentError("No equals sign found in a SCRAM component: each is name=value")
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return name, value


def _base64(name: str, text: str) -> bytes:
    """Decode base64; as in Java's decoder the final padding may be missing."""
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramArgumentError(f"Failed to decode given {name}: it is not base64") from error


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text):
        raise ScramArgumentError("Failed to parse iterations count: it is not a number")
    return int(text)
