"""Text that came with a request, as any database takes it."""


def plain_text(text: str, length: int) -> str:
    """Return the text without NUL and lone surrogates, cut to `length` characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:length]
