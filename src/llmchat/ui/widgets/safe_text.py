"""Text of others made harmless: nothing of it can act on the terminal, hide, or reorder other text."""

from __future__ import annotations

import re

_SUSPECT = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20f0]{4}"
)
"""Anything that ``safe_text`` may change; text without it is returned as it is."""

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]P^_X]|[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c))?"  # OSC, DCS, PM, APC, SOS
    r"|\x1b[ -/]*[0-~]?"
)
_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INVISIBLE = re.compile(
    r"[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e0fff]"
)
"""Bidi controls, zero-width spaces, fillers, variation selectors but the emoji one, and annotation marks."""

_PICTURE = r"\u00a9\u00ae\u2049-\u3299\U0001f000-\U0001faff"
_EMOJI_SELECTOR = re.compile(rf"(?<![{_PICTURE}#*0-9])\ufe0f|(?<=[#*0-9])\ufe0f(?!\u20e3)")
_LETTER = r"\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufeff"
_JOINER = re.compile(rf"(?<![{_PICTURE}\ufe0f{_LETTER}])[\u200c\u200d]|[\u200c\u200d](?![{_PICTURE}{_LETTER}])")
"""Joiners are kept inside emoji, and between letters of scripts that spell with them (Arabic, Indic, Khmer)."""

_TAG = re.compile(
    r"(?:(?<=\U0001f3f4)([\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f))|[\U000e0020-\U000e007f]+"
)
"""Tag characters, which can smuggle text past the eye: kept only as the tail of a flag of a region."""

_PILE = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20f0]{3})[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20f0]+"
)
"""More than three combining marks on a letter climb over the lines around it."""

TAB = 4


def safe_text(text: str) -> str:
    """``text`` without escape sequences, control characters, bidi controls and hidden characters.

    Line breaks of every kind become ``\\n``, tabs four spaces, lone surrogates U+FFFD. Idempotent.
    """
    if not _SUSPECT.search(text):
        return text
    text = _BREAK.sub("\n", _ESCAPE.sub("", text))
    text = _CONTROL.sub("", text.replace("\t", " " * TAB))
    text = _TAG.sub(lambda match: match[1] or "", _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text)))
    text = _JOINER.sub("", _EMOJI_SELECTOR.sub("", text))
    return _PILE.sub(r"\1", text)


def one_line(text: str) -> str:
    """``safe_text`` on one line: for names and labels."""
    return " ".join(safe_text(text).split())
