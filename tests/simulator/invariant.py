"""The failure of an invariant."""


class InvariantBrokenError(AssertionError):
    """An invariant of the quorum or of its metadata does not hold."""


def check(holds: bool, claim: str, *facts: object) -> None:
    if not holds:
        raise InvariantBrokenError(f"{claim}: {', '.join(map(str, facts))}")
