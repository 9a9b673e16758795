"""The subject of a certificate as Java writes it, so that super users, ACLs and mapping rules match Apache's brokers.

RFC 2253: last part first, nine short keywords, every other attribute as its OID and the encoded value in hex.
Source: RFC 2253; X500Principal.getName() of the JDK, which Kafka's principals come from.
"""

from typing import Final

from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_LONG_FORM: Final = 0x80


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER). Raises ValueError when it cannot be read."""
    return distinguished_name(x509.load_der_x509_certificate(certificate).subject)


def distinguished_name(name: x509.Name) -> str:
    """Write a name."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    number = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(number)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{number}=#{_encoded_value(attribute).hex()}"
    return f"{keyword}={_escape(attribute.value)}"


def _escape(text: str) -> str:
    escaped = [
        "\\00" if character == "\x00" else f"\\{character}" if character in _ESCAPED else character
        for character in text
    ]
    inner_start = len(text) - len(text.lstrip(" "))
    inner_end = len(text.rstrip(" "))
    return "".join(
        f"\\{part}" if part == " " and not inner_start <= index < inner_end else part
        for index, part in enumerate(escaped)
    )


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the DER of an attribute's value, which follows the OID in Name { RDN { Attribute { OID, value } } }."""
    encoded = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        encoded = _contents(encoded)[0]
    return _contents(encoded)[1]


def _contents(encoded: bytes) -> tuple[bytes, bytes]:
    """Split DER -> (contents of the first element, the bytes after it)."""
    length, start = encoded[1], 2
    if length & _LONG_FORM:
        start += length & ~_LONG_FORM
        length = int.from_bytes(encoded[2:start])
    return encoded[start : start + length], encoded[start + length :]
