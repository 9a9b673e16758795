"""How a rule that does not hold is told."""


class InvariantBrokenError(AssertionError):
    """A rule of the quorum or of its metadata does not hold."""


def check(holds: bool, claim: str, *facts: object) -> None:
    if not holds:
        raise InvariantBrokenError(f"{claim}: {', '.join(map(str, facts))}")
