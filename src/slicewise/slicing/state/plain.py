"""Python values as a few arrays and a description in JSON: what a snapshot says without pickle.

A list of values of one type becomes one array; tuples and lists become their sizes and one list of
all that they hold; values of several types are parted by type. So the work is done column by
column, however many values there are. Named tuples and dataclasses are said by their fields, if the
writer and the reader know the module of their class; they are made again without a call of their
own code. What has no form here is pickled, and the writer is told.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, Protocol

import numpy as np

from slicewise.aggregates.lists import Rope
from slicewise.aggregates.multiset import Multiset
from slicewise.aggregates.policy import FAILED, Failed

Node = dict[str, Any]


class Writer(Protocol):
    """Takes arrays and bytes, and gives for each what finds it again."""

    def put(self, array: np.ndarray) -> Any: ...

    def put_bytes(self, data: bytes) -> Any: ...

    def record(self, cls: type) -> str | None:
        """The name under which a reader finds a class of states again, if it does."""

    def pickles(self, kind: str) -> None:
        """Note that values of a type had to be pickled."""


class Reader(Protocol):
    """Finds arrays and bytes again."""

    def get(self, place: Any) -> np.ndarray: ...

    def get_bytes(self, place: Any) -> bytes: ...

    def count(self, number: Any) -> int:
        """A number of values, if there can be so many."""

    def class_of(self, name: str) -> type:
        """The class of states that has this name."""

    def unpickled(self, place: Any) -> Any:
        """The value that is pickled there, if that may be read."""


# What holds other values, by the name it has in a description.
SEQUENCES: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "tuple": (tuple, tuple),
    "list": (list, list),
    "set": (set, set),
    "frozenset": (frozenset, frozenset),
    "deque": (deque, deque),
    "rope": (Rope, lambda part: Rope(tuple(part))),
}

# What a text says exactly, by the same: from the value to the text, and back.
TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "text": (str, str, str),
    "decimal": (Decimal, str, Decimal),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "fraction": (Fraction, str, Fraction),
    "uuid": (uuid.UUID, str, uuid.UUID),
}

# What makes the values of a defaultdict.
FACTORIES: dict[str | None, Any] = {
    None: None,
    **{cls.__name__: cls for cls in (bool, int, float, str, bytes, list, tuple, set, dict)},
}
FACTORY_NAMES = {cls: name for name, cls in FACTORIES.items()}

# Dicts that are more than that, by the same: from the dict to what it is beside its items, which
# has to be plain, and back.
DICTS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "counter": (Counter, lambda _: None, lambda _, items: _counted(items)),
    "ordered": (OrderedDict, lambda _: None, lambda _, items: OrderedDict(items)),
    "default": (
        defaultdict,
        lambda value: FACTORY_NAMES.get(value.default_factory),
        lambda name, items: defaultdict(FACTORIES[name], items),
    ),
}

NAMES = {cls: name for name, (cls, *_) in [*SEQUENCES.items(), *TEXTS.items(), *DICTS.items()]}


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
    if kind is np.ndarray and all(value.ndim == 1 for value in values):
        return _arrays(values, out)
    if kind is Failed:
        return {"is": "failed", "n": len(values)}
    if kind is complex:
        return {"is": "complex", "of": pack([(v.real, v.imag) for v in values], out)}
    if kind is bytearray:
        return {"is": "bytearray", "at": _put_parts(values, out)}
    if issubclass(kind, np.generic) and _are_scalars(values):
        whole = np.array(values)
        return {"is": "scalar", "type": whole.dtype.str, "at": out.put(whole.view(_raw(whole)))}
    if kind.__module__.startswith("pandas.") and kind.__name__ in PANDAS:
        return _pandas(kind, values, out)
    name = NAMES.get(kind, "")
    if name in SEQUENCES and not any(getattr(value, "maxlen", None) for value in values):
        return _sequences(name, values, out)
    if name in TEXTS:
        return {"is": name, "at": _put_texts([*map(TEXTS[name][1], values)], out)}
    if name in DICTS and all(_is_plain_dict(value) for value in values):
        more = [DICTS[name][1](value) for value in values]
        items = [tuple(value.items()) for value in values]
        return {"is": name, "more": pack(more, out), "of": pack(items, out)}
    return _records(kind, values, out) or _pickled(kind, values, out)


def _pickled(kind: type, values: Sequence[Any], out: Writer) -> Node:
    out.pickles(f"{kind.__module__}.{kind.__qualname__}")
    return {"is": "pickle", "at": out.put_bytes(pickle.dumps(list(values), protocol=5))}


def _are_scalars(values: Sequence[np.generic]) -> bool:
    """Return whether numbers or times of numpy have one type, and so one unit."""
    (kind, *others) = {value.dtype for value in values}
    return not others and kind.kind in "biufMm" and kind.itemsize <= 8


def _raw(array: np.ndarray) -> str:
    """The type under which the bytes of times are kept; others keep their own."""
    return "<i8" if array.dtype.kind in "Mm" else array.dtype.str


def _is_plain_dict(value: Any) -> bool:
    return type(value) is not defaultdict or value.default_factory in FACTORY_NAMES


def _counted(items: Any) -> Counter[Any]:
    # `Counter(items)` would count the pairs.
    return Counter(dict(items))


def unpack(node: Node, source: Reader) -> list[Any]:
    """The values that `pack` wrote."""
    kind = node["is"]
    if kind == "none":
        return [None] * source.count(node["n"])
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
    if kind in UNPACK:
        return UNPACK[kind](node, source)
    if kind in DICTS:
        more, items = unpack(node["more"], source), unpack(node["of"], source)
        return [DICTS[kind][2](one, rest) for one, rest in zip(more, items, strict=True)]
    if kind == "record":
        return _unpack_records(node, source)
    if kind != "pickle":
        raise ValueError(f"values of the kind {kind!r} are not known")
    return list(source.unpickled(node["at"]))


def _unpack_scalars(node: Node, source: Reader) -> list[Any]:
    kind = np.dtype(node["type"])
    if kind.kind not in "biufMm":
        raise ValueError(f"a number of the type {kind} is not known")
    return list(source.get(node["at"]).view(kind))


# Arrow gives times of nanoseconds as those of pandas, which alone have them.
PANDAS = ("Timestamp", "Timedelta")


def _pandas(kind: type, values: Sequence[Any], out: Writer) -> Node:
    import pyarrow as pa

    zones = {getattr(value, "tzinfo", None) for value in values}
    try:
        names = {zone: zone and pa.lib.tzinfo_to_string(zone) for zone in zones}
    except ValueError:
        return _pickled(kind, values, out)
    if any(value.unit != "ns" for value in values):
        return _pickled(kind, values, out)
    at = out.put(np.array([value.value for value in values], np.int64))
    named = [names[getattr(value, "tzinfo", None)] for value in values]
    return {"is": "pandas", "type": kind.__name__, "at": at, "zones": pack(named, out)}


def _unpack_pandas(node: Node, source: Reader) -> list[Any]:
    import pandas as pd

    if node["type"] not in PANDAS:
        raise ValueError(f"values of the kind {node['type']!r} are not known")
    counts = source.get(node["at"]).tolist()
    if node["type"] == "Timedelta":
        return [pd.Timedelta(count, unit="ns") for count in counts]
    zones = unpack(node["zones"], source)
    return [
        pd.Timestamp(count, unit="ns", tz=zone) for count, zone in zip(counts, zones, strict=True)
    ]


UNPACK: dict[str, Callable[[Node, Reader], list[Any]]] = {
    "failed": lambda node, source: [FAILED] * source.count(node["n"]),
    "complex": lambda node, source: [complex(*pair) for pair in unpack(node["of"], source)],
    "bytearray": lambda node, source: [*map(bytearray, _get_parts(node["at"], source))],
    "scalar": _unpack_scalars,
    "pandas": _unpack_pandas,
}


# Named tuples and dataclasses.


def record_fields(cls: type) -> list[str] | None:
    """The names of the fields of a named tuple or a dataclass; `None` for other classes."""
    if issubclass(cls, tuple):
        names = getattr(cls, "_fields", None)
        return list(names) if isinstance(names, tuple) and not cls.__dictoffset__ else None
    if dataclasses.is_dataclass(cls) and cls.__new__ is object.__new__:
        return [field.name for field in dataclasses.fields(cls)]
    return None


def _records(kind: type, values: Sequence[Any], out: Writer) -> Node | None:
    """Named tuples or dataclasses, if they are nothing but their fields."""
    names, path = record_fields(kind), out.record(kind)
    if names is None or path is None:
        return None
    if issubclass(kind, tuple):
        if any(len(value) != len(names) for value in values):
            return None
        columns = [[value[k] for value in values] for k in range(len(names))]
    elif any(_is_more(value, names) for value in values):
        return None
    else:
        columns = [[getattr(value, name) for value in values] for name in names]
    fields = [pack(column, out) for column in columns]
    return {"is": "record", "class": path, "names": names, "fields": fields, "n": len(values)}


def _is_more(value: Any, names: list[str]) -> bool:
    """Return whether a dataclass has attributes beside its fields, or lacks one of them."""
    more = getattr(value, "__dict__", {}).keys() - set(names)
    return bool(more) or not all(hasattr(value, name) for name in names)


def _unpack_records(node: Node, source: Reader) -> list[Any]:
    cls, names = source.class_of(node["class"]), node["names"]
    if record_fields(cls) != names:
        known = record_fields(cls)
        raise ValueError(f"the fields of {node['class']} were {names} and are {known}")
    columns = [unpack(field, source) for field in node["fields"]]
    rows = [*zip(*columns, strict=True)] if columns else [()] * source.count(node["n"])
    if issubclass(cls, tuple):
        return [tuple.__new__(cls, row) for row in rows]
    return [_made(cls, names, row) for row in rows]


def _made(cls: type, names: list[str], row: tuple[Any, ...]) -> Any:
    made: Any = object.__new__(cls)
    for name, value in zip(names, row, strict=True):
        object.__setattr__(made, name, value)
    return made


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
        return _pickled(dt.datetime, values, out)
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
