"""Machine code that goes out with the package, so that a first large table need not wait for it.

Made for a processor that has only what all of its kind have, which costs no speed (measured) but
where numbers are worked on many at a time: the sweeps of `rolling` are left to the processor that
runs them. It is found where Python, Numba, LLVM and numpy are those that it was made with, and
where kernels still have the text that it was made of; otherwise they are compiled.

`python -m slicewise.shipping` makes it, in the package's own folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent / "codegen" / "shipped"

# Queries whose code is shipped: the common windows over time, aggregates and types of columns.
QUERIES = """
import slicewise as sw

agg = sw.agg
windows = [sw.tumbling("5m"), sw.sliding("10m", every="2m"), sw.session("3m")]
aggs = [agg.count(), agg.sum("x"), agg.mean("x"), agg.min("x"), agg.max("x")]
more = [agg.std("x"), agg.first("x"), agg.last("x")]
for keys in ({"key": "string"}, {"key": "int64"}, {}):
    for kind in ("float64", "int64"):
        for some in (aggs, aggs + more):
            for over in (windows, windows[:2], windows[2:]):
                types, by = {"x": kind, **keys}, list(keys) or None
                sw.warm(windows=over, aggs=some, types=types, by=by)
"""


def ship(target: Path = TARGET, queries: str = QUERIES) -> int:
    """How many functions are shipped; what was there before is removed."""
    shutil.rmtree(target, ignore_errors=True)  # or else it would be found, and not be made
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"SLICEWISE_CACHE_DIR": folder, "NUMBA_CPU_NAME": "generic"}
        subprocess.run(
            [sys.executable, "-c", queries], env={**os.environ, **environment}, check=True
        )
        for module in Path(folder).glob("*.py"):
            if is_shipped(module.read_text(encoding="utf-8")):
                for file in Path(folder).glob(f"{module.stem}.*.nb[ic]"):
                    shutil.copyfile(file, target / file.name)
    return len(list(target.glob("*.nbc")))


def is_shipped(text: str) -> bool:
    """Return whether the functions of a generated module are called from Python, and no sweeps."""
    called = re.search(r"^kernel = jit\(", text, re.MULTILINE) is not None
    return called and "def tiles(" not in text and "@kernel" in text


if __name__ == "__main__":
    print(f"{ship()} functions are shipped in {TARGET}.")
