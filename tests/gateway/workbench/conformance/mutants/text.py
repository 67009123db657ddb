"""Mutants that mean well with text, and change it (clauses 1.2-1, 1.2-2 and 1.3-1)."""

from __future__ import annotations

import codecs
import html
import json
import re
import unicodedata

from tests.frame_factory import TEXT
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


class _Changes(Stream):
    """Says a text again as :meth:`changed` makes it."""

    def changed(self, text: str) -> str:
        raise NotImplementedError

    async def on_text(self, text: str) -> None:
        await super().on_text(self.changed(text))


@mutant("text.white_space")
class Strips(_Changes):
    """Strips white space from a text's ends."""

    def changed(self, text: str) -> str:
        return text.strip()


@mutant("text.white_space")
class TrimsEnd(_Changes):
    """Strips blanks from a text's end."""

    def changed(self, text: str) -> str:
        return text.rstrip(" ")


@mutant("text.white_space")
class Squeezes(_Changes):
    """Makes one blank of several."""

    def changed(self, text: str) -> str:
        return re.sub(" +", " ", text)


@mutant("text.line_ends")
class Chomps(_Changes):
    """Takes the line end off a text."""

    def changed(self, text: str) -> str:
        return text.removesuffix("\n")


@mutant("text.line_ends")
class UnixLines(_Changes):
    """Makes LF of CRLF and of CR."""

    def changed(self, text: str) -> str:
        return text.replace("\r\n", "\n").replace("\r", "\n")


@mutant("text.line_ends")
class JoinsLines(_Changes):
    """Makes LF of whatever Unicode has for a line's end."""

    def changed(self, text: str) -> str:
        end = "\n" if text.endswith("\n") else ""
        kept = re.sub("[\u0085\u2028\u2029]", "\n", text.removesuffix(end))
        return kept + end


@mutant("text.normal_form")
class Composes(_Changes):
    """Normalises text to NFC."""

    def changed(self, text: str) -> str:
        return unicodedata.normalize("NFC", text)


@mutant("text.normal_form")
class Simplifies(_Changes):
    """Writes one letter for all that look like it, as NFKC does."""

    def changed(self, text: str) -> str:
        return "".join(
            unicodedata.normalize("NFKC", each) if each in "\ufb01\uff21\u00b2" else each
            for each in text
        )


@mutant("text.bom")
class DropsBom(_Changes):
    """Takes a BOM off the beginning of a text, as one does with a file's."""

    def changed(self, text: str) -> str:
        return text.removeprefix("\ufeff")


@mutant("text.controls")
class EndsAtNul(_Changes):
    """Takes NULs off a text's end, as of a C string in a buffer."""

    def changed(self, text: str) -> str:
        return text.rstrip("\0")


@mutant("text.controls")
class Printable(_Changes):
    """Leaves out what cannot be printed in ASCII, but for line ends and NUL."""

    def changed(self, text: str) -> str:
        return re.sub("[\x01-\x08\x0e-\x1f\x7f]", "", text)


@mutant("text.code_points")
class ReplacesNoncharacters(_Changes):
    """Writes U+FFFD for noncharacters."""

    def changed(self, text: str) -> str:
        return re.sub("[\ufdd0-\ufdef\ufffe\uffff\U0010ffff]", "\ufffd", text)


@mutant("text.code_points")
class RefusesLast(Stream):
    """Takes the last code point for one too many."""

    def text_of(self, payload: bytes) -> str:
        if b"\xf4\x8f\xbf\xbf" in payload:
            raise Violation(1007, "not UTF-8")
        return super().text_of(payload)


@mutant("text.literal")
class ParsesJson(_Changes):
    """Reads a text as JSON if it can, and writes it anew."""

    def changed(self, text: str) -> str:
        try:
            return json.dumps(json.loads(text))
        except ValueError:
            return text


@mutant("text.literal")
class Unescapes(_Changes):
    """Takes the references of HTML for what they stand for."""

    def changed(self, text: str) -> str:
        return html.unescape(text)


@mutant("text.fragments")
class StripsFragments(Stream):
    """Strips blanks from the ends of each fragment of a text."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        text = TEXT in (opcode, (self.begun or (0,))[0])
        alone = fin and self.begun is None
        await super().on_data(fin, opcode, payload.strip(b" ") if text and not alone else payload)


@mutant("text.fragments")
class DropsBomOfFragments(Stream):
    """Takes a BOM off the beginning of each fragment of a text."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        text = TEXT in (opcode, (self.begun or (0,))[0]) and not (fin and self.begun is None)
        kept = payload.removeprefix(codecs.BOM_UTF8) if text else payload
        await super().on_data(fin, opcode, kept)


@mutant("messages.code_point")
class HoldsTwoBytes(Stream):
    """Takes a code point over two fragments only if two bytes of it came in the first."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if not fin and (opcode or (self.begun or (0,))[0]) == TEXT:
            whole = bytes(self.begun[1] if self.begun else b"") + payload
            decoder = codecs.getincrementaldecoder("utf-8")()
            decoder.decode(whole)
            if len(decoder.getstate()[0]) not in (0, 2):
                raise Violation(1007, "not UTF-8")
        await super().on_data(fin, opcode, payload)
