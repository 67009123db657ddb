"""Texts of every look come back as they were sent (clauses 1.2-1, 1.2-2 and 1.3-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from partway.gateway.workbench.conformance.check import Body, Checks, Need
from partway.gateway.workbench.conformance.checks.messages import send_fragments
from partway.gateway.workbench.conformance.trial import Trial
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()


@dataclass(frozen=True, slots=True)
class _Kept:
    """Texts that some containers change, each sent as a message of its own.

    Attributes:
        name: the check's, after ``text.``.
        requires: ids of further checks whose failure makes this check fail too.
    """

    name: str
    what: str
    remedy: str
    texts: tuple[str, ...]
    requires: tuple[str, ...] = ()


#: Control characters, except for those of white space and line ends.
_CONTROLS: Final = "".join(
    character
    for character in map(chr, (*range(1, 0x20), *range(0x7F, 0xA0)))
    if character not in "\t\n\v\f\r\x85"
)
#: The first and the last code point of each length in UTF-8, beside the surrogates, and
#: noncharacters, which are characters to UTF-8 (RFC 3629 §3; Unicode 15, section 23.7).
_EDGES: Final = (
    "\xa1\u07ff\u0800\ud7ff\ue000\uf8ff\ufdd0\ufdef\ufffd\ufffe\uffff"
    "\U00010000\U0001fffe\U0001ffff\U000e0001\U0010fffe\U0010ffff"
)

_KEPT: Final = (
    _Kept(
        "white_space",
        "white space at its ends",
        "send a text back unchanged: strip, trim and split are for input that people type",
        (" a", "a ", "  a  b  ", "\ta\t", " ", "\t", "\u00a0a\u00a0", "\u3000a\u2003"),
    ),
    _Kept(
        "line_ends",
        "line ends",
        "keep line ends unchanged, LF, CR and CRLF: do not read a text by lines, or write it in "
        "a mode that translates them",
        (
            *("a\n", "a\r\n", "a\r", "\na", "\n", "\r\n", "a\nb\r\nc\rd", "a\n\n"),
            *("a\u0085b", "a\u2028b\u2029c", "a\x0bb\x0cc", "a\u2028"),
        ),
        ("text.white_space",),
    ),
    _Kept(
        "normal_form",
        "characters that have another normal form",
        "do not normalise a text that you pass on (NFC, NFD, NFKC, NFKD): texts that look alike "
        "may differ",
        (
            *("e\u0301", "\u00e9", "A\u030a \u00c5 \u212b", "\u1112\u1161\u11ab \ud55c"),
            *("q\u0323\u0307 q\u0307\u0323", "\ufb01 \uff21 \u00b2 \u2126", "\u0344 \u0958"),
        ),
    ),
    _Kept(
        "bom",
        "U+FEFF",
        "keep U+FEFF everywhere, at the beginning too: it marks files, not messages (decode with "
        "utf-8, not utf-8-sig)",
        ("\ufeffa", "\ufeff", "\ufeff\ufeffa", "a\ufeffb", "a\ufeff"),
        ("text.white_space",),
    ),
    _Kept(
        "controls",
        "NUL and other control characters",
        "take a text's length from its frame, not from a NUL in it, and leave no character out",
        ("\0", "a\0", "\0a", "a\0\0b", "a\0\0", f"a{_CONTROLS}b"),
        ("text.white_space", "text.line_ends"),
    ),
    _Kept(
        "code_points",
        "the first and last code points of each length, and noncharacters",
        "accept each code point from U+0000 to U+10FFFF except surrogates: noncharacters, and "
        "characters that no font shows, are valid UTF-8",
        (
            *(f"a{character}b" for character in _EDGES),
            *(_EDGES, "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f", "\u00ad\u200b"),
            "\u202eabc\u202c",
        ),
    ),
    _Kept(
        "literal",
        "content that looks like JSON, HTML, a URL or an escape",
        "an echo does not interpret a text: do not parse, escape or unescape it",
        (
            *('{"b": 1, "a":1.50}', "[1,2 ]", '"quoted"', "null", "1e3", "0x10", "true"),
            *("&lt;b&gt; &amp; &#65;", "<b>'</b>", "%41%20+a=b", "\\u0041\\n\\", "${HOME} {0} %s"),
        ),
    ),
)
_EACH: Final = tuple(f"text.{kept.name}" for kept in _KEPT)


def _tried(kept: _Kept) -> Body:
    async def body(trial: Trial) -> None:
        async with trial.stream(f"texts with {kept.what}") as peer:
            for message in kept.texts:
                await peer.say(message)
                await trial.echoed(peer, message, f"after a text with {kept.what}")

    return body


for _kept in _KEPT:
    checks.add(
        f"text.{_kept.name}",
        "1.2-1",
        "1.2-2",
        "1.3-1",
        title=f"a text with {_kept.what} comes back unchanged",
        remedy=_kept.remedy,
        requires=("messages.text", *_kept.requires),
        needs=(Need.ECHO,),
    )(_tried(_kept))


@checks.add(
    "text.fragments",
    "1.2-3",
    "1.3-1",
    title="the ends of a text's fragments come back unchanged",
    remedy="join a message's fragments byte by byte before you do anything with the text",
    requires=("messages.code_point", *_EACH),
    needs=(Need.ECHO,),
)
async def fragments(trial: Trial) -> None:
    async with trial.stream("texts in fragments") as peer:
        for pieces in (
            *((" a ", " b ", " "), ("a\r", "\nb\n", "\n"), ("\ufeffa", "\ufeffb", "\ufeff")),
            *(("e", "\u0301"), ("\0a\0", "\0"), ("&am", "p;"), ('{"a":', " 1 ", "}"), ("\\", "n")),
        ):
            await send_fragments(peer, Opcode.TEXT, [piece.encode() for piece in pieces])
            what = f"after a text in {len(pieces)} fragments, {pieces!a}"
            await trial.echoed(peer, "".join(pieces), what)
