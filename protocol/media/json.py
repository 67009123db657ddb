"""``application/json``: ``{"instances": [I, …], "configuration": {…}}``, in any order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from partway.protocol.json_scanner import JsonScanner, TooDeep
from partway.protocol.json_text import NotJson, parsed
from partway.protocol.limits import MAX_RECORD_BYTES, MEDIA_PIECE
from partway.protocol.media.batches import Batch, BatchBuilder
from partway.protocol.media.decoding import RecordDecoder, Tabular
from partway.protocol.media.encoding import RecordEncoder, check_finite, check_labels
from partway.protocol.media.faults import Malformed, OverLimit
from partway.protocol.media.instances import (
    LAYOUTS,
    instances_array,
    plain_rows,
    read_instance,
)

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_BOM: Final = b"\xef\xbb\xbf"
_BODY: Final = f'{{"instances": [{LAYOUTS}, …]}}'

#: Fewer bytes are not worth being read in another way first.
_LONG: Final = 256
#: Between a record's comma and the next one's brace, and before the comma.
_MOST_SPACE: Final = 64
#: At the beginning of a record, in one another.
_MOST_BRACES: Final = 4

_KINDS: Final = {b"[": "an array", b'"': "a string", b"t": "a boolean", b"f": "a boolean"}

#: Takes bytes from a place on; gives the next place, or -1 where all is used up.
_State = Callable[[bytes, int], int]


class JsonDecoder(RecordDecoder):
    """Reads the object around the records byte by byte, and records many at a time.

    A state is a method that takes what it understands and says which one is next. Whatever needs
    more than one byte is a value, whose end :class:`JsonScanner` finds.

    Args:
        wanted: what the records must be.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._state: _State = self._beginning
        self._bom = _BOM
        self._scanner = JsonScanner()
        self._value = bytearray()
        self._key = ""
        self._seen: set[str] = set()
        self._builder = BatchBuilder()
        self._ready: Batch | None = None
        self._offset = 0
        self._one_by_one_until = 0
        self._built_from = 0

    def feed(self, data: bytes) -> Iterator[Batch]:
        place = 0
        while 0 <= place < len(data):
            found = _SPACE.match(data, place)
            if not self._value and found is not None:
                place = found.end()
                if place == len(data):
                    break
            place = self._state(data, place)
            if self._ready is not None or self._offset + place - self._built_from > MEDIA_PIECE:
                yield from self._batches(self._offset + place)
        self._offset += len(data)
        yield from self._batches(self._offset)

    def finish(self) -> Iterator[Batch]:
        if self._state != self._end:
            if self._state == self._beginning:
                raise Malformed(f"the body is empty; it must be {_BODY}")
            inside = {self._record, self._after_record} & {self._state}
            raise Malformed(
                f"the body is not JSON: it ends too early, at byte {self._offset}",
                record=self.records if inside and self._value else None,
            )
        if "instances" not in self._seen:
            raise Malformed(f"the body must be {_BODY}")
        self._check_some()
        yield from ()

    def _batches(self, upto: int) -> Iterator[Batch]:
        """What was read one by one, then what was read at once after it."""
        self._built_from = upto
        builder, self._builder = self._builder, BatchBuilder()
        yield from self._built(builder)
        ready, self._ready = self._ready, None
        if ready is not None:
            yield self._judged(ready)

    # --- The object around them ------------------------------------------------------------------

    def _beginning(self, data: bytes, place: int) -> int:
        byte = data[place : place + 1]
        if self._bom and byte == self._bom[:1]:
            self._bom = self._bom[1:]
        elif byte == b"{" and len(self._bom) in {0, len(_BOM)}:
            self._state = self._first_key
        else:
            self._expected("{", place)
        return place + 1

    def _first_key(self, data: bytes, place: int) -> int:
        if data[place : place + 1] == b"}":
            self._state = self._end
            return place + 1
        self._state = self._member
        return place

    def _member(self, data: bytes, place: int) -> int:
        if not self._value and data[place : place + 1] != b'"':
            self._expected("a member's name", place)
        end = self._scan(data, place)
        if end >= 0:
            key = self._parsed(data, end)
            self._key = key if isinstance(key, str) else ""
            if self._key not in {"instances", "configuration"}:
                raise Malformed(
                    "the body: an object has an unknown member; known are instances, configuration"
                )
            if self._key in self._seen:
                raise Malformed("the body is not JSON: an object has a member twice")
            self._seen.add(self._key)
            self._state = self._colon
        return end

    def _colon(self, data: bytes, place: int) -> int:
        if data[place : place + 1] != b":":
            self._expected(":", place)
        self._state = self._array if self._key == "instances" else self._configuration
        return place + 1

    def _configuration(self, data: bytes, place: int) -> int:
        end = self._scan(data, place)
        if end >= 0:
            found = self._parsed(data, end)
            if not isinstance(found, dict):
                raise Malformed("the body: configuration must be an object")
            self.configuration = found
            self._state = self._after_member
        return end

    def _after_member(self, data: bytes, place: int) -> int:
        byte = data[place : place + 1]
        if byte == b"}":
            self._state = self._end
        elif byte == b",":
            self._state = self._member
        else:
            self._expected(", or }", place)
        return place + 1

    def _end(self, data: bytes, place: int) -> int:
        return self._expected("the end", place)

    # --- Records ---------------------------------------------------------------------------------

    def _array(self, data: bytes, place: int) -> int:
        if data[place : place + 1] != b"[":
            raise Malformed(f"the body: instances must be an array: {_BODY}")
        self._state = self._first_record
        return place + 1

    def _first_record(self, data: bytes, place: int) -> int:
        if data[place : place + 1] == b"]":
            self._state = self._after_member
            return place + 1
        self._state = self._record
        return place

    def _after_record(self, data: bytes, place: int) -> int:
        byte = data[place : place + 1]
        if byte == b",":
            self._state = self._record
        elif byte == b"]":
            self._state = self._after_member
        else:
            self._expected(", or ]", place)
        return place + 1

    def _record(self, data: bytes, place: int) -> int:
        if not self._value:
            if data[place : place + 1] != b"{":
                self._refuse_record(data[place : place + 1], place)
            comma = self._several(data, place)
            if comma >= 0:
                self._state = self._after_record
                return comma
        end = self._scan(data, place)
        if end >= 0:
            self._one(bytes(self._value), self._offset + end - len(self._value))
            self._value.clear()
            self._state = self._after_record
        return end

    def _several(self, data: bytes, place: int) -> int:
        """Read as many records as a piece holds, if they are alike; gives the comma after them."""
        if self._offset + place < self._one_by_one_until or len(data) - place < _LONG:
            return -1
        comma = _last_comma(data, place, min(place + MEDIA_PIECE, len(data)))
        if comma < 0:
            return -1
        rows = _plain(data[place:comma])
        if rows is None or self._width not in {None, rows.shape[1]}:
            self._one_by_one_until = self._offset + comma
            return -1
        self._check_width(rows.shape[1], self.records)
        self._ready = Batch(rows, first=self.records + len(self._builder))
        return comma

    def _one(self, text: bytes, offset: int) -> None:
        record = self.records + len(self._builder)
        rows = None if len(text) < _LONG else _plain(text)  # one with many features
        if rows is not None:
            self._check_width(rows.shape[1], record)
            self._builder.add(rows[0])
            return
        try:
            instance = read_instance(text, self._width)
        except NotJson as error:
            at = "" if error.at is None else f" at byte {offset + _bytes(text, error.at)}"
            raise Malformed(f"the record is not JSON: {error.why}{at}", record=record) from None
        except ValueError as error:
            raise Malformed(str(error), record=record) from None
        row = instance.row
        self._check_width(row.width, record)
        self._builder.add(
            row.values,
            row.keys,
            uid=instance.uid,
            metadata=instance.metadata,
            configuration=instance.configuration,
        )

    def _refuse_record(self, byte: bytes, place: int) -> NoReturn:
        if byte == b"]":
            self._expected("a record after the comma", place)
        kind = "null" if byte == b"n" else _KINDS.get(byte, "a number")
        if kind == "a number" and byte not in b"-0123456789":
            self._expected("an object", place)
        raise Malformed(
            f"{kind} was given; it must be an object: {LAYOUTS}",
            record=self.records + len(self._builder),
        )

    # --- Values ----------------------------------------------------------------------------------

    def _scan(self, data: bytes, place: int) -> int:
        """Keep what there is of a value; gives its end, or -1."""
        try:
            end = self._scanner.scan(data, place)
        except TooDeep as error:
            raise Malformed(f"the body is not read: {error}") from None
        self._value += data[place : end if end >= 0 else len(data)]
        if len(self._value) > MAX_RECORD_BYTES:
            raise OverLimit(
                f"record {self.records + len(self._builder)} is longer than {MAX_RECORD_BYTES} "
                "bytes: send a shorter one"
            )
        return end

    def _parsed(self, data: bytes, end: int) -> object:
        text = bytes(self._value)
        self._value.clear()
        try:
            return parsed(text)
        except NotJson as error:
            start = self._offset + end - len(text)
            at = "" if error.at is None else f" at byte {start + _bytes(text, error.at)}"
            raise Malformed(f"the body is not JSON: {error.why}{at}") from None

    def _expected(self, what: str, place: int) -> NoReturn:
        raise Malformed(f"the body is not JSON: expected {what} at byte {self._offset + place}")


class JsonEncoder(RecordEncoder):
    """Writes one object, whose records come with each batch; a batch may say its configuration."""

    def __init__(self) -> None:
        self._begun = False
        self._configuration: Mapping[str, Any] | None = None

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_labels(batch, 0, "application/json")
        check_finite(batch)
        self._configuration = self._configuration or batch.configuration
        before = b"," if self._begun else b'{"instances": ['
        self._begun = True
        yield before
        yield from instances_array(batch)

    def finish(self) -> Iterator[bytes]:
        if not self._begun:
            yield b'{"instances": ['
        if self._configuration is None:
            yield b"]}"
        else:
            yield b'], "configuration": %b}' % orjson.dumps(self._configuration)


def _plain(text: bytes) -> NDArray[np.float64] | None:
    """The features of records between commas, if they are alike; None if they are not."""
    try:
        # What is JSON in these brackets is a number of whole values: the commas are between them.
        records = orjson.loads(b"[%b]" % text)
    except orjson.JSONDecodeError:
        return None
    return plain_rows(records, text) if records else None


def _last_comma(data: bytes, start: int, stop: int) -> int:
    """The last comma between two objects; -1 if there is none. A string may look like them."""
    brace = data.rfind(b"{", start + 1, stop)
    for _ in range(_MOST_BRACES):
        if brace < 0:
            break
        before = data[max(start, brace - _MOST_SPACE) : brace].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(b"}"):
            return brace - len(data[max(start, brace - _MOST_SPACE) : brace]) + len(before) - 1
        if not before.endswith(b":"):
            return -1
        brace = data.rfind(b"{", start + 1, brace)
    return -1


def _bytes(text: bytes, characters: int) -> int:
    return len(text.decode(errors="replace")[:characters].encode())
