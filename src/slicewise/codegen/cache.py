"""Where specialised modules and their machine code are kept between processes.

`SLICEWISE_CACHE_DIR` names the folder; otherwise it is the user's cache folder, and a folder for
this user under the temporary one when that cannot be written. Never the installation itself, so
a read-only installation works.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What is needed only when something is compiled is imported there: importing the package is quick.

# Held while a module is made: one that is half made must not be found by another thread.
_importing = threading.RLock()


@cache
def folder() -> Path:
    """The folder for generated modules; made if it is missing."""
    import tempfile
    from pathlib import Path

    asked = os.environ.get("SLICEWISE_CACHE_DIR")
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    candidates = [asked] if asked else []
    candidates += [
        os.path.join(user, "slicewise"),
        os.path.join(tempfile.gettempdir(), f"slicewise-{owner}"),
    ]
    for candidate in candidates:
        path = Path(candidate)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path):
                pass
        except OSError:
            continue
        if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
            continue  # never run code from a folder that somebody else owns
        return path
    return Path(tempfile.mkdtemp(prefix="slicewise-"))


def module_from(source: str) -> ModuleType:
    """Import `source` as a module that lives in the cache folder.

    The file is named after its content, so it never changes. Numba's cache compares modification
    times: whichever process writes the file, it is the same, so that cache stays valid. Threads
    that ask at the same time wait for one of them to make the module.
    """
    with _importing:
        return _made_once(source)


def _made_once(source: str) -> ModuleType:
    """The module, which nobody else makes meanwhile."""
    import hashlib
    import importlib.util
    import tempfile

    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    name = f"_slicewise_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    path = folder() / f"{name}.py"
    # Another process may write the same file: complete files only.
    if not path.exists() or path.stat().st_size != len(source.encode()):
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            file.write(source)
        os.utime(file.name, (0, 0))
        os.replace(file.name, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
