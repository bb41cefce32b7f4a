"""Python values as a few arrays and a description in JSON: what a snapshot says without pickle.

A list of values of one type becomes one array; tuples and lists become their sizes and one list of
all that they hold; values of several types are parted by type. So the work is done column by
column, however many values there are. What has no form here is pickled, and the writer is told.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Protocol

import numpy as np

from slicewise.aggregates.lists import Rope
from slicewise.aggregates.multiset import Multiset

Node = dict[str, Any]


class Writer(Protocol):
    """Takes arrays and bytes, and gives for each what finds it again."""

    def put(self, array: np.ndarray) -> Any: ...

    def put_bytes(self, data: bytes) -> Any: ...

    def pickles(self, kind: str) -> None:
        """Note that values of a type had to be pickled."""


class Reader(Protocol):
    """Finds arrays and bytes again."""

    def get(self, place: Any) -> np.ndarray: ...

    def get_bytes(self, place: Any) -> bytes: ...


# What holds other values, by the name it has in a description.
SEQUENCES: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "tuple": (tuple, tuple),
    "list": (list, list),
    "set": (set, set),
    "frozenset": (frozenset, frozenset),
    "rope": (Rope, lambda part: Rope(tuple(part))),
}

# What a text says exactly, by the same: from the value to the text, and back.
TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "text": (str, str, str),
    "decimal": (Decimal, str, Decimal),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
}

NAMES = {cls: name for name, (cls, *_) in [*SEQUENCES.items(), *TEXTS.items()]}


def pack(values: Sequence[Any], out: Writer) -> Node:
    """Write values; the description from which `unpack` reads them again.

    Types are kept exactly: True is not 1, and a tuple is no list.
    """
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return _parted(values, kinds, out)
    kind = kinds.pop() if kinds else type(None)
    if kind is type(None):
        return {"is": "none", "n": len(values)}
    if kind is bool:
        return {"is": "bool", "at": out.put(np.array(values, np.bool_))}
    if kind is int:
        try:
            return {"is": "int", "at": out.put(np.array(values, np.int64))}
        except OverflowError:
            return {"is": "large", "at": _put_texts([*map(hex, values)], out)}
    if kind is float:
        return {"is": "float", "at": out.put(np.array(values, np.float64))}
    if kind is bytes:
        return {"is": "bytes", "at": _put_parts(values, out)}
    if kind is dt.datetime:
        return _moments(values, out)
    if kind is dt.timedelta:
        counts = [value // dt.timedelta(microseconds=1) for value in values]
        return {"is": "timedelta", "of": pack(counts, out)}
    if kind is dict:
        return _dicts(values, out)
    if kind is Multiset:
        return {"is": "multiset", "of": pack([value.runs for value in values], out)}
    if kind is np.ndarray:
        return _arrays(values, out)
    name = NAMES.get(kind)
    if name in SEQUENCES:
        return _sequences(name, values, out)
    if name in TEXTS:
        return {"is": name, "at": _put_texts([*map(TEXTS[name][1], values)], out)}
    out.pickles(f"{kind.__module__}.{kind.__qualname__}")
    return {"is": "pickle", "at": out.put_bytes(pickle.dumps(list(values), protocol=5))}


def unpack(node: Node, source: Reader) -> list[Any]:
    """The values that `pack` wrote."""
    kind = node["is"]
    if kind == "none":
        return [None] * node["n"]
    if kind in ("bool", "int", "float"):
        return list(source.get(node["at"]).tolist())
    if kind == "bytes":
        return _get_parts(node["at"], source)
    if kind == "large":
        return [int(text, 16) for text in _get_texts(node["at"], source)]
    if kind in TEXTS:
        texts = _get_texts(node["at"], source)
        return texts if kind == "text" else [*map(TEXTS[kind][2], texts)]
    if kind in SEQUENCES:
        return _unpack_sequences(node, source)
    if kind == "multiset":
        return [*map(Multiset, unpack(node["of"], source))]
    if kind == "mixed":
        return _unparted(node, source)
    if kind == "dict":
        return _unpack_dicts(node, source)
    if kind == "array":
        return _unpack_arrays(node, source)
    if kind == "datetime":
        return _unpack_moments(node, source)
    if kind == "timedelta":
        return [dt.timedelta(microseconds=n) for n in unpack(node["of"], source)]
    assert kind == "pickle", kind
    return list(pickle.loads(source.get_bytes(node["at"])))


def _parted(values: Sequence[Any], kinds: set[type], out: Writer) -> Node:
    """Values of several types: which type each has, and those of each type."""
    order = {kind: k for k, kind in enumerate(sorted(kinds, key=lambda kind: kind.__qualname__))}
    codes = np.array([order[type(value)] for value in values], np.int64)
    parts = [pack([v for v in values if type(v) is kind], out) for kind in order]
    return {"is": "mixed", "at": out.put(codes), "of": parts}


def _unparted(node: Node, source: Reader) -> list[Any]:
    parts = [iter(unpack(part, source)) for part in node["of"]]
    return [next(parts[code]) for code in source.get(node["at"]).tolist()]


def _sequences(name: str, values: Sequence[Any], out: Writer) -> Node:
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    if name == "tuple" and len(values) > 1 and 0 < sizes[0] < 64 and (sizes == sizes[0]).all():
        # Rows of one shape: each field has a type of its own more often than each row.
        fields = range(int(sizes[0]))
        columns = [pack([value[field] for value in values], out) for field in fields]
        return {"is": name, "n": len(values), "fields": columns}
    items = list(chain.from_iterable(values))
    return {"is": name, "sizes": out.put(sizes), "of": pack(items, out)}


def _unpack_sequences(node: Node, source: Reader) -> list[Any]:
    if "fields" in node:
        return [*zip(*(unpack(field, source) for field in node["fields"]), strict=True)]
    make = SEQUENCES[node["is"]][1]
    return [make(part) for part in _split(unpack(node["of"], source), node["sizes"], source)]


def _split(items: list[Any], sizes: Any, source: Reader) -> list[list[Any]]:
    ends = np.cumsum(source.get(sizes)).tolist()
    return [items[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _dicts(values: Sequence[dict[Any, Any]], out: Writer) -> Node:
    shapes = {tuple(value) for value in values}
    shape = shapes.pop()
    if not shapes and shape and set(map(type, shape)) == {str}:
        # Rows: the names once, and a column for each.
        fields = [pack([value[name] for value in values], out) for name in shape]
        return {"is": "dict", "names": list(shape), "fields": fields}
    items = [tuple(value.items()) for value in values]
    return {"is": "dict", "of": pack(items, out)}


def _unpack_dicts(node: Node, source: Reader) -> list[Any]:
    if "of" in node:
        return [*map(dict, unpack(node["of"], source))]
    columns = [unpack(field, source) for field in node["fields"]]
    return [dict(zip(node["names"], row, strict=True)) for row in zip(*columns, strict=True)]


def _arrays(values: Sequence[np.ndarray], out: Writer) -> Node:
    kinds = sorted({value.dtype.str for value in values})
    codes = np.array([kinds.index(value.dtype.str) for value in values], np.int64)
    parts = []
    for kind in kinds:
        chosen = [value for value in values if value.dtype.str == kind]
        whole = np.concatenate(chosen)
        at = {"of": pack(whole.tolist(), out)} if kind == "|O" else {"at": out.put(whole)}
        parts.append({"sizes": out.put(np.array([*map(len, chosen)], np.int64)), **at})
    return {"is": "array", "kinds": out.put(codes), "parts": parts}


def _unpack_arrays(node: Node, source: Reader) -> list[Any]:
    parts = []
    for part in node["parts"]:
        if "at" in part:
            whole = source.get(part["at"])
        else:
            items = unpack(part["of"], source)
            whole = np.fromiter(items, object, len(items))
        sizes = source.get(part["sizes"])
        parts.append(iter(np.split(whole, np.cumsum(sizes)[:-1])))
    return [next(parts[code]) for code in source.get(node["kinds"]).tolist()]


def _moments(values: Sequence[dt.datetime], out: Writer) -> Node:
    """Datetimes as text, and the names of their zones as Arrow knows them."""
    import pyarrow as pa

    zones = {value.tzinfo for value in values}
    try:
        names = {zone: zone and pa.lib.tzinfo_to_string(zone) for zone in zones}
    except ValueError:
        out.pickles("datetime.datetime")
        return {"is": "pickle", "at": out.put_bytes(pickle.dumps(list(values), protocol=5))}
    texts = [value.replace(tzinfo=None).isoformat() for value in values]
    folds = np.array([value.fold for value in values], np.int64)
    return {
        "is": "datetime",
        "at": _put_texts(texts, out),
        "folds": out.put(folds),
        "zones": pack([names[value.tzinfo] for value in values], out),
    }


def _unpack_moments(node: Node, source: Reader) -> list[Any]:
    import pyarrow as pa

    names = unpack(node["zones"], source)
    zones = {name: name and pa.lib.string_to_tzinfo(name) for name in set(names)}
    rows = zip(_get_texts(node["at"], source), source.get(node["folds"]).tolist(), names)
    return [
        dt.datetime.fromisoformat(text).replace(tzinfo=zones[name], fold=fold)
        for text, fold, name in rows
    ]


def _put_parts(values: Sequence[bytes], out: Writer) -> Any:
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    return [out.put(sizes), out.put_bytes(b"".join(values))]


def _get_parts(at: Any, source: Reader) -> list[bytes]:
    data = source.get_bytes(at[1])
    ends = np.cumsum(source.get(at[0])).tolist()
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _put_texts(values: Sequence[str], out: Writer) -> Any:
    """Texts by their sizes in characters and all of them as one."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    return [out.put(sizes), out.put_bytes("".join(values).encode("utf-8", "surrogatepass"))]


def _get_texts(at: Any, source: Reader) -> list[str]:
    data = source.get_bytes(at[1]).decode("utf-8", "surrogatepass")
    ends = np.cumsum(source.get(at[0])).tolist()
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
