"""Snapshots changed at random behind a right checksum: none may crash or hang the process.

`python -m tests.support.fuzz BEGIN END [NAME]` tries the mutations of these numbers and prints what
went wrong, of all cases or of those whose names begin with NAME. The work is done in a child, so
that its death is seen; it then goes on with the next number. A mutation is good if `restore` raises
`SnapshotError`, or gives an operator that takes events, a watermark and a snapshot, or refuses them
with an error of Slicewise. Numbers that were changed give other numbers.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import slicewise as sw
from slicewise.errors import SlicewiseError, SnapshotError
from slicewise.tuning import tuned
from tests.support.parts import SIZES, put_together, sealed, taken_apart
from tests.support.snapshots import Case, cases

SECONDS = 20  # in which a mutation has to be done, on a busy machine too
MEMORY = 12 << 30  # bytes of addresses; half of them are taken before anything is done

NUMBERS = [
    *(0, 1, -1, 2, 7, 64, 255, 10**6, 2**31, 2**32 - 1, 2**40, 2**53, 2**61, 2**62, -(2**62)),
    *(2**63 - 1, -(2**63), 2**63, 2**64, 10**30),
]
VALUES: list[Any] = [
    *NUMBERS,
    *(None, True, False, "", "x", "0", "|V0", "bits", "<i8", "|O", "lz4", [], {}, [0, 0], {"0": 0}),
    *(0.5, -0.0, 1e308, math.nan, math.inf),
]


def mutated(blob: bytes, number: int) -> bytes:
    """The mutation of a snapshot that has this number."""
    rng = random.Random(number)
    header, body = taken_apart(blob)
    kind = rng.random()
    if kind < 0.03:
        return _resized(header, bytes(body), rng)
    if kind < 0.06:
        text = bytearray(json.dumps({**header, "codec": ""}).encode())
        _change_bytes(text, rng)
        return sealed(bytes(text), bytes(body), len(body))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.55 or not body:
            _change_words(header, rng)
        else:
            _change_bytes(body, rng)
    return put_together(header, bytes(body))


def _resized(header: Any, body: bytes, rng: random.Random) -> bytes:
    """Sizes or compressed arrays that are others than those that are there."""
    import pyarrow as pa

    text = json.dumps({**header, "codec": "lz4"}).encode()
    packed = bytearray(pa.compress(body, codec="lz4", asbytes=True) if body else b"")
    size = len(body)
    if rng.random() < 0.5 and packed:
        _change_bytes(packed, rng)
    else:
        size = abs(rng.choice([size + 1, max(0, size - 1), *NUMBERS])) % 2**63
    assert SIZES.size
    return sealed(text, bytes(packed), size)


def _change_bytes(data: bytearray, rng: random.Random) -> None:
    kind, at = rng.random(), rng.randrange(len(data))
    if kind < 0.35:
        data[at] ^= 1 << rng.randrange(8)
    elif kind < 0.6:
        data[at] = rng.randrange(256)
    elif kind < 0.85:
        at -= at % 8
        number = rng.choice(NUMBERS) & (2**64 - 1)
        data[at : at + 8] = number.to_bytes(8, "little")[: len(data) - at]
    elif kind < 0.9:
        del data[at:]
    elif kind < 0.95:
        data[at:at] = bytes(rng.randrange(1, 9))
    else:
        other = rng.randrange(len(data))
        data[at : at + 8], data[other : other + 8] = data[other : other + 8], data[at : at + 8]


def _change_words(header: Any, rng: random.Random) -> None:
    places = [*_places(header)]
    inside, key = rng.choice(places)
    kind, value = rng.random(), inside[key]
    if kind < 0.35:
        inside[key] = copy.deepcopy(rng.choice(VALUES))
    elif kind < 0.65 and type(value) in (int, float):
        change = rng.choice([1, -1, 2, 8, -8, 2**20, 2**40])
        inside[key] = value + change if rng.random() < 0.7 else value * change
    elif kind < 0.8:
        other, name = rng.choice(places)
        inside[key] = copy.deepcopy(other[name])
    elif kind < 0.9:
        del inside[key]
    elif isinstance(value, list):
        value.append(copy.deepcopy(rng.choice([*value, *VALUES])))
    elif isinstance(value, dict):
        value[rng.choice(["x", "0", "1", "7", "name"])] = copy.deepcopy(rng.choice(VALUES))
    else:
        inside[key] = copy.deepcopy(rng.choice(VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where each part of nested values is."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def tried(blob: bytes, case: Case) -> str:
    """What is wrong with an operator from these bytes; nothing, if all is well."""
    try:
        op = sw.Operator.restore(blob)
    except SnapshotError:
        return ""
    except BaseException as error:
        return f"restore: {error!r}"
    try:
        for verb, given in (*case.then[:2], ("advance", math.inf)):
            getattr(op, verb)(given)
        op.snapshot()
    except SlicewiseError:
        return ""
    except BaseException as error:
        return f"later: {error!r}"
    return ""


def work(begin: int, end: int, named: str = "") -> None:
    """Try mutations, in a child: says which number is tried, and what was wrong with it."""
    import resource

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    known = [
        (name, case, case.operator().snapshot()) for name, case in cases() if name.startswith(named)
    ]
    for number in range(begin, end):
        name, case, blob = known[number % len(known)]
        print("try", number, name, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        wrong = tried(mutated(blob, number), case)
        faulthandler.cancel_dump_traceback_later()
        if wrong:
            print("wrong", number, name, wrong[:300].replace("\n", " "), flush=True)
    print("done", flush=True)


def failures(begin: int, end: int, named: str = "") -> Iterator[str]:
    """What went wrong with the mutations of these numbers."""
    while begin < end:
        command = [
            sys.executable,
            "-m",
            "tests.support.fuzz",
            "--work",
            str(begin),
            str(end),
            named,
        ]
        root = Path(__file__).parents[2]
        child = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
        lines = child.stdout.splitlines()
        yield from (line for line in lines if line.startswith("wrong"))
        if lines and lines[-1] == "done":
            return
        last = [line for line in lines if line.startswith("try")][-1:]
        if not last:
            yield f"the child did not begin: {child.stderr[-2000:]}"
            return
        begin = int(last[0].split()[1]) + 1
        how = "hung" if "Timeout" in child.stderr else f"died with {child.returncode}"
        yield f"{how} at {last[0]}: {child.stderr[-1500:]}"


if __name__ == "__main__":
    flags, given = sys.argv[1:2], sys.argv[1:]
    if flags == ["--work"]:
        # By its name, because classes are found again by the module that they are in.
        from tests.support import fuzz

        with tuned(kernels="compiled"):  # only compiled code leaves its arrays
            fuzz.work(int(given[1]), int(given[2]), *given[3:])
    else:
        for failure in failures(int(given[0]), int(given[1]), *given[2:]):
            print(failure, flush=True)
