"""The bytes of a snapshot: a preamble, a header in JSON, and arrays.

    8 bytes  b"SLICEWIS"
    u32      version
    u32      CRC-32 of all that follows
    u64      size of the header
    u64      size of the arrays, as they are here
    u64      size of the arrays, decompressed
    header   JSON; its "codec" says how the arrays are compressed ("" for not at all)
    arrays   one after the other; the header says where each is and how it is stored

Whole numbers are stored as their distance from the least of an array, in as few bytes as that
takes.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.errors import SnapshotError

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC, VERSION = b"SLICEWIS", 1
FRONT = struct.Struct("<8sII")
SIZES = struct.Struct("<QQQ")
CODEC = "lz4"
MORE = 64  # values that a snapshot may have beyond its bytes: a key of nothing, a slice
NO_BYTES = "|V0"  # how an array of equal numbers is stored

Place = list[Any]  # [type, length, where, stored type, least]


class BlobWriter:
    """Collects the arrays of a snapshot.

    Named tuples and dataclasses of these `modules` are said by their fields.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.parts: list[Any] = []
        self.size = 0
        self.modules = frozenset(modules)
        self.pickled: set[str] = set()

    def put(self, array: np.ndarray) -> Place:
        """Take an array; returns what finds it again."""
        kind = stored = array.dtype.str
        length, least = len(array), 0
        if kind == "|b1":
            array, stored = np.packbits(array), "bits"
        elif kind == "<i8" and length:
            least, most = int(array.min()), int(array.max())
            stored = _narrow(most - least)
            if stored == NO_BYTES:
                array = array[:0]
            elif stored == kind:
                least = 0
            else:
                array = (array - least).astype(stored)
        place = [kind, length, self.size, stored, least]
        self._append(array.tobytes())
        return place

    def put_bytes(self, data: bytes) -> list[int]:
        """Take bytes; returns where they are."""
        place = [self.size, len(data)]
        self._append(data)
        return place

    def record(self, cls: type) -> str | None:
        """The name under which a reader finds a class of states again, if it does."""
        return path_of(cls) if cls.__module__ in self.modules else None

    def pickles(self, kind: str) -> None:
        """Note that values of a type are pickled."""
        self.pickled.add(kind)

    def _append(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)

    def blob(self, header: dict[str, Any]) -> bytes:
        """The snapshot with this header."""
        import pyarrow as pa

        body = b"".join(self.parts)
        codec = CODEC if pa.Codec.is_available(CODEC) and body else ""
        if codec:
            body = pa.compress(body, codec=codec, asbytes=True)
        full = {**header, "codec": codec, "pickled": sorted(self.pickled)}
        text = json.dumps(full, separators=(",", ":")).encode()
        rest = b"".join([SIZES.pack(len(text), len(body), self.size), text, body])
        return FRONT.pack(MAGIC, VERSION, zlib.crc32(rest)) + rest


def _narrow(reach: int) -> str:
    """The least type for numbers from 0 to `reach`; of no bytes when that is 0."""
    if not reach:
        return NO_BYTES
    for kind, bits in (("|u1", 8), ("<u2", 16), ("<u4", 32)):
        if reach < 1 << bits:
            return kind
    return "<i8"


class BlobReader:
    """Finds the header and the arrays of a snapshot; refuses what is none, or damaged.

    What is pickled is read only if the bytes are `trusted`: to read a pickle is to run it. Classes
    of states are looked for in `modules` alone.
    """

    def __init__(self, blob: bytes, *, trusted: bool = False) -> None:
        rest = _checked(blob)
        sizes, body_size, self.size = SIZES.unpack_from(rest)
        begin = SIZES.size
        self.trusted = trusted
        self.modules: frozenset[str] = frozenset()
        self.header: dict[str, Any] = _header(bytes(rest[begin : begin + sizes]))
        self._body = rest[begin + sizes : begin + sizes + body_size]
        if self.header["codec"]:
            self._body = _decompressed(self._body, self.size, self.header["codec"])

    def count(self, number: Any) -> int:
        """A number of values, if there can be so many: no value takes less than a bit."""
        if type(number) is not int or not 0 <= number <= 8 * len(self._body) + MORE:
            raise SnapshotError(
                f"The snapshot is damaged: it has {len(self._body)} bytes of arrays and says that "
                f"one of them holds {number!r} values. Take an older one, or process the events "
                "again."
            )
        return number

    def get(self, place: Place) -> np.ndarray:
        """An array, which may be changed."""
        kind, length, where, stored, least = place
        length = self.count(length)
        if np.dtype(kind).kind not in "biuf" or type(where) is not int or type(least) is not int:
            raise SnapshotError(f"The snapshot is damaged: it describes an array as {place!r}.")
        if stored == NO_BYTES:
            return np.full(length, least, kind)
        if stored == "bits":
            bits = np.frombuffer(self._body, np.uint8, (length + 7) // 8, where)
            return np.unpackbits(bits, count=length).astype(np.bool_)
        array = np.frombuffer(self._body, stored, length, where).astype(kind)
        if least:
            array += least
        return array

    def get_bytes(self, place: list[int]) -> bytes:
        """The bytes at a place."""
        where, size = place
        if type(where) is not int or type(size) is not int or not 0 <= where <= len(self._body):
            raise SnapshotError(f"The snapshot is damaged: it describes bytes as {place!r}.")
        data = bytes(self._body[where : where + self.count(size)])
        if len(data) != size:
            raise SnapshotError(
                f"The snapshot is damaged: {size} bytes are to begin at {where}, and there are "
                f"{len(data)}. Take an older one, or process the events again."
            )
        return data

    def class_of(self, name: str) -> type:
        """The class of states that has this name, in a module that is known."""
        module = name.partition(":")[0]
        found = loaded(name) if module in self.modules else None
        if not isinstance(found, type):
            known = ", ".join(sorted(self.modules)) or "none"
            raise SnapshotError(
                f"The snapshot has states of the class {name!r}, which is not in the modules of "
                f"its aggregates and windows ({known}), or is no longer there. Restore it with the "
                "code that wrote it."
            )
        return found

    def unpickled(self, place: list[int]) -> Any:
        """The value that is pickled at a place, if the bytes are trusted."""
        if not self.trusted:
            raise distrusted(self.header.get("pickled") or [])
        return pickle.loads(self.get_bytes(place))


def distrusted(kinds: Iterable[Any]) -> SnapshotError:
    """The error for values of these types that are pickled, in bytes that are not trusted."""
    said = ", ".join(map(str, kinds)) or "of unknown types"
    return SnapshotError(
        f"The snapshot has values that are pickled ({said}), and to read a pickle is to run the "
        "code that it names. If nobody but you can have written it, read it with `trusted=True`. "
        "Numbers, texts, bytes, dates, and tuples, lists, sets, dicts, named tuples and "
        "dataclasses of them need no pickle."
    )


def _header(text: bytes) -> dict[str, Any]:
    header = json.loads(text)
    if not isinstance(header, dict) or header.get("codec") not in ("", CODEC):
        raise SnapshotError(
            "The snapshot is damaged: its header cannot be read. Take an older one, or process the "
            "events again."
        )
    return header


def path_of(thing: Any) -> str | None:
    """`module:name` of a class or function that is found by it; `None` for others."""
    path = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
    return path if loaded(path) is thing else None


def loaded(path: str) -> Any:
    """The thing that a path names in a module that is imported already; `None` if there is nothing.

    Nothing is imported for it and no code runs.
    """
    module, _, name = path.partition(":")
    thing: Any = sys.modules.get(module)
    for part in name.split("."):
        thing = getattr(thing, "__dict__", {}).get(part)
    return thing


def _checked(blob: bytes) -> memoryview:
    """The bytes behind the preamble, once it is known to be whole."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(
            f"A snapshot is bytes, as `Operator.snapshot()` returns; given: {type(blob).__name__}."
        )
    view = memoryview(blob)
    if len(view) < FRONT.size + SIZES.size or bytes(view[:8]) != MAGIC:
        shown = bytes(view[:8])
        raise SnapshotError(
            f"A snapshot begins with {MAGIC!r}; given: {len(view)} bytes that begin with "
            f"{shown!r}. Give the bytes of `Operator.snapshot()` as they are."
        )
    _, version, checksum = FRONT.unpack_from(view)
    if version > VERSION or not version:
        raise SnapshotError(
            f"The snapshot has version {version}; this release of Slicewise reads versions up to "
            f"{VERSION}. Restore it with the release that wrote it, or a later one."
        )
    rest = view[FRONT.size :]
    header, body, _ = SIZES.unpack_from(rest)
    wanted = FRONT.size + SIZES.size + header + body
    if len(view) != wanted:
        raise SnapshotError(
            f"The snapshot is damaged: it should have {wanted} bytes and has {len(view)}. "
            "Take an older one, or process the events again."
        )
    if zlib.crc32(rest) != checksum:
        raise SnapshotError(
            "The snapshot is damaged: its checksum does not match its content. Take an older one, "
            "or process the events again."
        )
    return rest


def _decompressed(body: memoryview, size: int, codec: str) -> memoryview:
    import pyarrow as pa

    if not pa.Codec.is_available(codec):
        raise SnapshotError(
            f"The snapshot is compressed with {codec!r}, which this build of pyarrow lacks. "
            "Install one that has it."
        )
    # LZ4 takes at least one byte for 255; more would be said to let memory run out.
    data = b""
    if size <= 256 * len(body) + MORE:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), codec) as stream:
            data = stream.read(size)
    if len(data) != size:
        raise SnapshotError(
            f"The snapshot is damaged: its arrays should have {size} bytes and have {len(data)}. "
            "Take an older one, or process the events again."
        )
    return memoryview(data)


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of(data: bytes, *, any_text: bool = False) -> pa.Table:
    """The table of such bytes; refuses texts that are not UTF-8, unless `any_text` may be there."""
    import pyarrow as pa

    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    checked = table
    if any_text:
        fields = [field.with_type(as_bytes(field.type)) for field in table.schema]
        checked = table.cast(pa.schema(fields))  # shares its memory
    checked.validate(full=True)
    return table


def as_bytes(kind: pa.DataType) -> pa.DataType:
    """A type with bytes in place of texts, at any depth of structs and lists."""
    import pyarrow as pa

    types = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(as_bytes(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(as_bytes(kind.value_type)))
    return kind
