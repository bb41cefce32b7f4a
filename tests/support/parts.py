"""Snapshots taken apart and put together again, with a right checksum whatever they say."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pyarrow as pa

FRONT = struct.Struct("<8sII")
SIZES = struct.Struct("<QQQ")


def taken_apart(blob: bytes) -> tuple[dict[str, Any], bytearray]:
    """The header of a snapshot, and its arrays, decompressed."""
    size, body, unpacked = SIZES.unpack_from(blob, FRONT.size)
    begin = FRONT.size + SIZES.size
    header: dict[str, Any] = json.loads(blob[begin : begin + size])
    data = blob[begin + size :]
    assert len(data) == body
    if header["codec"]:
        data = pa.decompress(data, unpacked, codec=header["codec"], asbytes=True)
    return header, bytearray(data)


def put_together(header: Any, body: bytes) -> bytes:
    """The snapshot of this header and these arrays, not compressed."""
    if isinstance(header, dict) and header.get("codec") == "lz4":
        header = {**header, "codec": ""}
    return sealed(json.dumps(header).encode(), body, len(body))


def sealed(text: bytes, body: bytes, unpacked: int) -> bytes:
    """The same of a header that is written already; `unpacked` is what it says of the arrays."""
    rest = SIZES.pack(len(text), len(body), unpacked) + text + body
    return FRONT.pack(b"SLICEWIS", 1, zlib.crc32(rest)) + rest
