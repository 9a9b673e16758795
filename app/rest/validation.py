"""Checks of request bodies that their models cannot express."""

from collections import Counter
from collections.abc import Iterable

from kraft_core.protocol.errors import ErrorCode, KafkaError


def refuse_repeated(what: str, names: Iterable[object]) -> None:
    """Raise KafkaError INVALID_REQUEST when a name occurs more than once. `what` is its kind, such as "Topic"."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} {str(repeated[0])[:250]} is given more than once.")
