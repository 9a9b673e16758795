"""Common passwords: words, names, keyboard runs and repetitions, alone or combined.

NIST SP 800-63B requires that a new password is compared with commonly used and expected ones. With a minimum of 15
characters most published lists are too short to matter; what remains are combinations of the same few pieces. So a
password is refused when it consists of at most two different pieces, with short numbers and punctuation between them.
The words are our own selection.
"""

import string
from functools import cache
from typing import Final

PIECES_MIN: Final = 3
NUMBER_MAX: Final = 4
RUN_MIN: Final = 3
_RUNS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "01234567890",
    "qwertzuiop",
    "azertyuiop",
)
_LEET: Final = str.maketrans("013457@$!", "oleastasi")
_WORDS: Final = frozenset(
    [
        "access",
        "account",
        "admin",
        "administrator",
        "angel",
        "apple",
        "april",
        "august",
        "autumn",
        "baby",
        "banana",
        "baseball",
        "basketball",
        "batman",
        "berlin",
        "blue",
        "broker",
        "buster",
        "button",
        "changeit",
        "changeme",
        "charlie",
        "cheese",
        "chocolate",
        "cloud",
        "cluster",
        "coffee",
        "company",
        "computer",
        "conclave",
        "controller",
        "cookie",
        "correct",
        "database",
        "december",
        "default",
        "demo",
        "diamond",
        "dragon",
        "eagle",
        "enter",
        "example",
        "family",
        "february",
        "flower",
        "football",
        "forever",
        "freedom",
        "friday",
        "friend",
        "ginger",
        "google",
        "guest",
        "hammer",
        "happy",
        "hello",
        "hockey",
        "holiday",
        "house",
        "hunter",
        "iloveyou",
        "internet",
        "january",
        "jordan",
        "july",
        "june",
        "kafka",
        "killer",
        "kitty",
        "letmein",
        "linux",
        "login",
        "london",
        "love",
        "lovely",
        "magic",
        "manager",
        "march",
        "maria",
        "martin",
        "master",
        "matrix",
        "michael",
        "mickey",
        "monday",
        "money",
        "monkey",
        "mother",
        "mustang",
        "my",
        "mypassword",
        "newyork",
        "nicole",
        "ninja",
        "nothing",
        "november",
        "october",
        "office",
        "oracle",
        "orange",
        "pass",
        "passphrase",
        "passw0rd",
        "passwd",
        "password",
        "pepper",
        "please",
        "pokemon",
        "princess",
        "private",
        "purple",
        "qazwsx",
        "qwerty",
        "rainbow",
        "root",
        "samsung",
        "saturday",
        "secret",
        "secure",
        "security",
        "september",
        "server",
        "shadow",
        "silver",
        "simple",
        "soccer",
        "spring",
        "star",
        "starwars",
        "strong",
        "summer",
        "sunday",
        "sunshine",
        "superman",
        "superuser",
        "support",
        "sweet",
        "system",
        "tech",
        "temp",
        "temporary",
        "test",
        "tester",
        "testing",
        "the",
        "this",
        "thomas",
        "thursday",
        "tigger",
        "trustno",
        "tuesday",
        "user",
        "username",
        "wednesday",
        "welcome",
        "whatever",
        "winter",
        "wizard",
        "wonder",
        "yellow",
        "your",
        "zookeeper",
    ]
)


def is_common(password: str, *names: str) -> bool:
    """Return whether the password has at most two different common pieces. `names` are further words."""
    words = _WORDS | {text for name in names if len(text := _letters(name.casefold())) >= RUN_MIN}
    plain = password.casefold()
    inner = plain.strip(string.digits + string.punctuation + " ")
    texts = {_letters(plain), _letters(plain.translate(_LEET)), _letters(inner.translate(_LEET))}
    return any(_pieces(text, words) < PIECES_MIN for text in texts)


def _letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _pieces(text: str, words: frozenset[str] | set[str]) -> int:
    """Return the smallest number of pieces that make up the text. A repeated piece counts once."""
    longest = max(map(len, words))

    @cache
    def least(start: int, before: str) -> int:
        if start == len(text):
            return 0
        best = PIECES_MIN
        for end in range(start + 1, min(len(text), start + longest) + 1):
            kind = _kind(text[start:end], words, before)
            if kind is not None:
                cost = 0 if kind in {before, "number"} else 1
                best = min(best, cost + least(end, before if kind == "number" and before else kind))
        return best

    result = min(PIECES_MIN, least(0, ""))
    least.cache_clear()
    return result


def _kind(piece: str, words: frozenset[str] | set[str], before: str) -> str | None:
    """Return the kind of a piece: a word, a keyboard run, one repeated character or a short number; else None."""
    if piece in words:
        return piece
    if len(piece) >= RUN_MIN:
        if len(set(piece)) == 1:
            return "run"
        if any(piece in run or piece in run[::-1] for run in _RUNS):
            return "run"
    return "number" if piece.isdigit() and len(piece) <= NUMBER_MAX and before != "number" else None
