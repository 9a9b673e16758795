"""Text from requests, in a form that every database accepts."""


def plain_text(text: str, length: int | None = None) -> str:
    """Return the text without NUL and lone surrogates, cut to `length` characters. PostgreSQL rejects these."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:length]
