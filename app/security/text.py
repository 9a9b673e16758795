"""Text that came with a request, as any database takes it."""


def plain_text(text: str, length: int | None = None) -> str:
    """Return the text without NUL and lone surrogates, cut to `length` characters. PostgreSQL refuses to compare others."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:length]
