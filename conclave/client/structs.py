"""Base classes of the models: answers that are read and bodies that are sent."""

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of answers. Members that a newer server adds are passed over."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Base of bodies. A member that is not given is not sent."""
