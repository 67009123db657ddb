"""``application/json``: ``{"instances": [I, …]}``, ``[I, …]``, and the forms of ``json_table``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch, BatchBuilder
from partway.protocol.formats.column_order import ColumnOrder
from partway.protocol.formats.decoding import RecordDecoder, Tabular
from partway.protocol.formats.encoding import (
    RecordEncoder,
    check_finite,
    check_labels,
    check_queries,
)
from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.formats.instances import (
    KINDS,
    LAYOUTS,
    JsonRecord,
    instances_array,
    plain_rows,
    read_instance,
    record_of,
)
from partway.protocol.json.strict import NotJson, parsed
from partway.protocol.json.value_scanner import JsonScanner, TooDeep
from partway.protocol.limits import MAX_JSON_TABLE_BYTES, MAX_RECORD_BYTES, MEDIA_PIECE

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_BOM: Final = b"\xef\xbb\xbf"
_BODY: Final = f'{{"instances": [{LAYOUTS}, …]}}'

#: Shorter texts are read in the general way at once.
_LONG: Final = 256
#: Most spaces between a record's comma and the next brace, and before the comma.
_MOST_SPACE: Final = 64
#: Most nested braces or brackets at the beginning of a record.
_MOST_BRACES: Final = 4

#: Members that a body may have beside its instances, in any order. TF Serving's name of a signature
#: means nothing to a model of tables; the parameters of KServe and Vertex AI configure the model.
_CONFIGURES: Final = ("configuration", "parameters")
_MEMBERS: Final = frozenset({"instances", "signature_name", *_CONFIGURES})
_KNOWN: Final = "instances, configuration, parameters, signature_name"

#: Most digits of a number that stays a whole number: all of 64 bits.
_WHOLE: Final = 18
#: First bytes of a record: of an object, an array, or a number.
_BEGIN_A_RECORD: Final = frozenset(bytes([each]) for each in b"{[-0123456789")
_KINDS: Final = {b'"': "a string", b"t": "a boolean", b"f": "a boolean", b"n": "null"}

#: Takes bytes from a place on; returns the next place, or -1 if all bytes are used up.
_State = Callable[[bytes, int], int]


class JsonDecoder(RecordDecoder):
    """Reads the object around the records byte by byte, and many records at a time.

    A state is a method that takes the bytes it understands and sets the next state.
    :class:`JsonScanner` finds the end of longer values. A form without an array of records is one
    such value: tensors, columns, a DataFrame.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._state: _State = self._beginning
        self._bom = _BOM
        self._scanner = JsonScanner()
        self._value = bytearray()
        self._key = ""
        self._seen: set[str] = set()
        self._order = ColumnOrder(wanted.names)
        #: The body's bytes until its records begin; then None.
        self._beginning_text: bytearray | None = bytearray()
        self._behind_records: _State = self._after_member
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
            begin, state = place, self._state
            place = state(data, place)
            if self._beginning_text is not None and state != self._whole:
                self._beginning_text += data[begin : place if place >= 0 else len(data)]
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
            raise Malformed(f"the body has no instances; it must be {_BODY}")
        self._check_some()
        yield from ()

    def _batches(self, upto: int) -> Iterator[Batch]:
        """Yield the records that were read one by one, then those read together after them."""
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
        elif byte == b"[" and len(self._bom) in {0, len(_BOM)}:
            self._state = self._bare
        else:
            self._expected("{ or [", place)
        return place + 1

    def _bare(self, data: bytes, place: int) -> int:
        """Continue in an array that is the whole body: of records, or of one record's values."""
        self._seen.add("instances")
        self._beginning_text = None
        self._behind_records = self._end
        if data[place : place + 1] in {b"[", b"{", b"]"}:
            self._state = self._first_record
            return place
        self._scan(b"[", 0)
        self._state = self._only_record
        return place

    def _only_record(self, data: bytes, place: int) -> int:
        end = self._scan(data, place)
        if end >= 0:
            self._one(bytes(self._value), self._offset + end - len(self._value))
            self._value.clear()
            self._state = self._end
        return end

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
            if self._key not in _MEMBERS and "instances" not in self._seen:
                self._become_whole(data[place:end])
                return end
            if self._key not in _MEMBERS:
                raise Malformed(f"the body: an object has an unknown member; it may have {_KNOWN}")
            if self._key in self._seen:
                raise Malformed("the body is not JSON: an object has a member twice")
            self._seen.add(self._key)
            self._state = self._colon
        return end

    def _become_whole(self, rest: bytes) -> None:
        """Read the body from its beginning as one value: it has no array of records."""
        assert self._beginning_text is not None, "there are no records yet"
        text = bytes(self._beginning_text + rest)
        self._beginning_text = None
        self._scan(text[text.index(b"{") :], 0)
        self._state = self._whole

    def _whole(self, data: bytes, place: int) -> int:
        end = self._scan(data, place)
        if len(self._value) > MAX_JSON_TABLE_BYTES:
            raise OverLimit(
                f"the body is longer than {MAX_JSON_TABLE_BYTES} bytes: send it as {_BODY}, which "
                "is read record by record"
            )
        if end >= 0:
            self._seen.add("instances")
            self._table(self._parsed(data, end, _number))
            self._state = self._end
        return end

    def _table(self, body: object) -> None:
        from partway.protocol.formats.json_table import NotATable, table_of  # few bodies need it

        if isinstance(body, dict):
            self.configuration = _configured(body)
        try:
            table = table_of(body, self.wanted.names, self._width)
        except NotATable as fault:
            raise Malformed(str(fault), record=fault.record) from None
        for number, row in enumerate(table.rows):
            try:
                record = record_of(row, self._width, self._order)
            except ValueError as error:
                raise Malformed(str(error), record=number) from None
            self._add(record, number)

    def _colon(self, data: bytes, place: int) -> int:
        if data[place : place + 1] != b":":
            self._expected(":", place)
        self._state = self._array if self._key == "instances" else self._beside
        return place + 1

    def _beside(self, data: bytes, place: int) -> int:
        end = self._scan(data, place)
        if end >= 0:
            found = self._parsed(data, end)
            if self._key in _CONFIGURES:
                if self.configuration:
                    raise Malformed(f"the body: it must not have both {' and '.join(_CONFIGURES)}")
                self.configuration = _configured({self._key: found})
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
        self._beginning_text = None
        self._state = self._first_record
        return place + 1

    def _first_record(self, data: bytes, place: int) -> int:
        if data[place : place + 1] == b"]":
            self._state = self._behind_records
            return place + 1
        self._state = self._record
        return place

    def _after_record(self, data: bytes, place: int) -> int:
        byte = data[place : place + 1]
        if byte == b",":
            self._state = self._record
        elif byte == b"]":
            self._state = self._behind_records
        else:
            self._expected(", or ]", place)
        return place + 1

    def _record(self, data: bytes, place: int) -> int:
        if not self._value:
            if data[place : place + 1] not in _BEGIN_A_RECORD:
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
        """Read the records of a piece, if they have one form; return the comma after them."""
        if self._offset + place < self._one_by_one_until or len(data) - place < _LONG:
            return -1
        comma = _last_comma(data, place, min(place + MEDIA_PIECE, len(data)))
        if comma < 0:
            return -1
        rows = self._plain(data[place:comma])
        if rows is None or self._width not in {None, rows.shape[1]}:
            self._one_by_one_until = self._offset + comma
            return -1
        self._check_width(rows.shape[1], self.records)
        self._ready = Batch(rows, first=self.records + len(self._builder))
        return comma

    def _one(self, text: bytes, offset: int) -> None:
        record = self.records + len(self._builder)
        rows = None if len(text) < _LONG else self._plain(text)  # a long record
        if rows is not None:
            self._check_width(rows.shape[1], record)
            self._builder.add(rows[0])
            return
        try:
            instance = read_instance(text, self._width, self._order)
        except NotJson as error:
            at = "" if error.at is None else f" at byte {offset + _bytes(text, error.at)}"
            raise Malformed(f"the record is not JSON: {error.why}{at}", record=record) from None
        except ValueError as error:
            raise Malformed(str(error), record=record) from None
        self._add(instance, record)

    def _add(self, instance: JsonRecord, record: int) -> None:
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
        kind = _KINDS.get(byte)
        if kind is None:
            self._expected("a record", place)
        raise Malformed(
            f"{kind} was given; it must be {LAYOUTS}", record=self.records + len(self._builder)
        )

    def _plain(self, text: bytes) -> NDArray[np.float64] | None:
        """Return the features of records between commas if they have one form; otherwise None."""
        try:
            # If the text in brackets is valid JSON, its outer commas separate whole records.
            records = orjson.loads(b"[%b]" % text)
        except orjson.JSONDecodeError:
            return None
        return plain_rows(records, text, self._order) if records else None

    # --- Values ----------------------------------------------------------------------------------

    def _scan(self, data: bytes, place: int) -> int:
        """Keep the available bytes of a value; return its end, or -1."""
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

    def _parsed(self, data: bytes, end: int, number: Callable[[str], float] = float) -> object:
        text = bytes(self._value)
        self._value.clear()
        try:
            return parsed(text, number)
        except NotJson as error:
            start = self._offset + end - len(text)
            at = "" if error.at is None else f" at byte {start + _bytes(text, error.at)}"
            raise Malformed(f"the body is not JSON: {error.why}{at}") from None

    def _expected(self, what: str, place: int) -> NoReturn:
        raise Malformed(f"the body is not JSON: expected {what} at byte {self._offset + place}")


class JsonEncoder(RecordEncoder):
    """Writes one object with the records of all batches; a batch may give its configuration."""

    def __init__(self) -> None:
        self._begun = False
        self._configuration: Mapping[str, Any] | None = None

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_labels(batch, 0, "application/json")
        check_queries(batch, "application/json")
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


def _configured(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the configuration of a body, from either of its two members."""
    given = {name: body[name] for name in _CONFIGURES if body.get(name) is not None}
    for name, value in given.items():
        if not isinstance(value, dict):
            raise Malformed(f"the body: {name} is {KINDS[type(value)]}; it must be an object")
    if len(given) > 1:
        raise Malformed(f"the body: it must not have both {' and '.join(_CONFIGURES)}")
    return next(iter(given.values()), None)


def _number(text: str) -> float:
    """Return a number's value; a whole one stays an int, as needed for the sizes of a tensor."""
    is_whole = len(text) <= _WHOLE and text.lstrip("-").isdecimal()
    return int(text) if is_whole else float(text)


def _last_comma(data: bytes, start: int, stop: int) -> int:
    """Return the place of the last comma between records, or -1. A string may imitate one."""
    opening = data[start : start + 1]
    closing = {b"{": b"}", b"[": b"]"}.get(opening)
    if closing is None:  # numbers
        return data.rfind(b",", start, stop)
    begin = data.rfind(opening, start + 1, stop)
    for _ in range(_MOST_BRACES):
        if begin < 0:
            break
        before = data[max(start, begin - _MOST_SPACE) : begin].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(closing):
            return begin - len(data[max(start, begin - _MOST_SPACE) : begin]) + len(before) - 1
        if not before.endswith(b":"):
            return -1
        begin = data.rfind(opening, start + 1, begin)
    return -1


def _bytes(text: bytes, characters: int) -> int:
    return len(text.decode(errors="replace")[:characters].encode())
