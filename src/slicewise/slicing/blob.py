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
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.errors import SnapshotError

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC, VERSION = b"SLICEWIS", 1
FRONT = struct.Struct("<8sII")
SIZES = struct.Struct("<QQQ")
CODEC = "lz4"
NO_BYTES = "|V0"  # how an array of equal numbers is stored

Place = list[Any]  # [type, length, where, stored type, least]


class BlobWriter:
    """Collects the arrays of a snapshot."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.size = 0
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
    """Finds the header and the arrays of a snapshot; refuses what is none, or damaged."""

    def __init__(self, blob: bytes) -> None:
        rest = _checked(blob)
        sizes, body_size, self.size = SIZES.unpack_from(rest)
        begin = SIZES.size
        self.header: dict[str, Any] = json.loads(bytes(rest[begin : begin + sizes]))
        self._body = rest[begin + sizes : begin + sizes + body_size]
        if self.header["codec"]:
            self._body = _decompressed(self._body, self.size, self.header["codec"])

    def get(self, place: Place) -> np.ndarray:
        """An array, which may be changed."""
        kind, length, where, stored, least = place
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
        return bytes(self._body[where : where + size])


def _checked(blob: bytes) -> memoryview:
    """What follows the preamble, once it is known to be whole."""
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
    return memoryview(pa.decompress(pa.py_buffer(body), size, codec=codec))


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of(data: bytes) -> pa.Table:
    """The table of such bytes."""
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
