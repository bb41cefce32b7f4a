"""Where specialised modules and their machine code are kept between processes.

`SLICEWISE_CACHE_DIR` names the folder; otherwise it is the user's cache folder, and a folder for
this user under the temporary one when that cannot be written. Never the installation itself, so
a read-only installation works. Where there is no folder that can be trusted, and where a disk is
full, modules and machine code are made in memory, and a `CacheWarning` says so once.

What nobody used for a month is removed. A file is marked as used by its time of change, which is
set when it is read, once a day at most: times of access are often not kept.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from slicewise.errors import CacheWarning

if TYPE_CHECKING:
    from pathlib import Path

# What is needed only when something is compiled is imported there: importing the package is quick.

# Held while a module is made: one that is half made must not be found by another thread.
_importing = threading.RLock()

_gave_up = False  # whether it was said that machine code is not kept

# How the names of all files begin, and how they end.
OURS, ENDINGS = "_slicewise_", (".py", ".nbi", ".nbc", ".tmp")
CLEANED = "_slicewise_cleaned"  # the file whose time says when old files were removed
DAY = 24 * 60 * 60
UNUSED = 30 * DAY  # seconds after which a file goes that nobody used


@cache
def folder() -> Path | None:
    """The folder for generated modules, made if it is missing; `None` if there can be none.

    Code is run from it, so it must belong to this user, and nobody else may write to it.
    """
    import errno
    import tempfile
    import time
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
        path = Path(candidate).absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if reason := _untrusted(path):
                _say(f"The cache folder {candidate!r} is not used: {reason}.")
                continue
            with tempfile.NamedTemporaryFile(dir=path) as file:
                file.write(b"is there room?")
                file.flush()
        except OSError as error:
            # A home that can only be read is common, and nobody asked for it.
            rights = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
            if candidate == asked or not rights:
                _say(f"The cache folder {candidate!r} cannot be used: {error.strerror or error}.")
            continue
        clean(path, time.time())
        return path
    _say("There is no folder for machine code, so every process compiles anew.")
    return None


def _untrusted(path: Path) -> str:
    """Why code is not run from a folder; empty if it may be."""
    if not hasattr(os, "getuid"):
        return ""
    found = path.stat()
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others can write to it, and code is run from it (`chmod go-w` keeps them out)"
    return ""


def clean(place: Path, now: float) -> None:
    """Remove the files of a cache folder that were not used for a month, once a day at most.

    Only regular files are removed that are named like those of this module. Several processes may
    do so at once: a file that another one is about to read is made anew there.
    """
    marker = place / CLEANED
    with suppress(OSError):
        if marker.exists() and 0 <= now - marker.stat().st_mtime < DAY:
            return
        with os.scandir(place) as entries:
            found = list(entries)
        if found:
            marker.touch(mode=0o600)
            os.utime(marker, (now, now))
        for entry in found:
            if _is_unused(entry, now):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_unused(entry: os.DirEntry[str], now: float) -> bool:
    """Return whether an entry of the cache folder is a file of ours that nobody uses any more."""
    if not (entry.name.startswith(OURS) and entry.name.endswith(ENDINGS)):
        return False
    try:
        regular = entry.is_file(follow_symlinks=False)
        return regular and now - entry.stat(follow_symlinks=False).st_mtime > UNUSED
    except OSError:  # another process was first
        return False


def note_use(path: str) -> None:
    """Mark a file of the cache folder as used, if that was not done today."""
    import time

    with suppress(OSError):
        if time.time() - os.stat(path).st_mtime > DAY:
            os.utime(path)


def _say(what: str) -> None:
    import warnings

    warnings.warn(
        f"{what} `SLICEWISE_CACHE_DIR` can name another folder.", CacheWarning, stacklevel=2
    )


def gave_up(error: Exception) -> None:
    """Say once that machine code could not be kept or found again; it is in memory all the same."""
    global _gave_up
    if not _gave_up:
        _gave_up = True
        _say(f"Machine code is not kept in {str(folder())!r}: {error}.")


def module_from(source: str) -> ModuleType:
    """The module of `source`, which is made once in a process.

    Its text is kept in the cache folder, in a file named after its content, for people to read;
    what is run is the text itself, whatever the file holds. Threads that ask at the same time wait
    for one of them to make the module.
    """
    with _importing:
        return _made_once(source)


def _made_once(source: str) -> ModuleType:
    """The module, which nobody else makes meanwhile."""
    import hashlib

    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    name = f"_slicewise_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    path = _written(name, source)
    module = ModuleType(name)
    if path is not None:
        module.__file__ = path
    try:
        sys.modules[name] = module
        exec(compile(source, path or f"<{name}>", "exec"), vars(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _written(name: str, source: str) -> str | None:
    """The file of a module's text, which is written if it is missing or not what it should be."""
    place = folder()
    if place is None:
        return None
    path = place / f"{name}.py"
    wanted = source.encode()
    try:
        try:
            if path.read_bytes() == wanted:
                note_use(str(path))
                return str(path)
        except FileNotFoundError:
            pass
        write(str(path), wanted)
    except OSError as error:
        gave_up(error)
        return None
    return str(path)


def write(path: str, content: bytes) -> None:
    """Write a file that others see complete or not at all; nothing is left behind if that fails."""
    import tempfile

    with tempfile.NamedTemporaryFile(
        dir=os.path.dirname(path), prefix=OURS, suffix=".tmp", delete=False
    ) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            file.close()
            os.unlink(file.name)
            raise
