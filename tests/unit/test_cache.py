"""The folder of machine code: whatever happens to it, programs go on, and say so once."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slicewise.codegen import cache, jit
from slicewise.errors import CacheWarning

SOURCE = '''"""Made for a test: {number}."""

from slicewise.codegen.jit import jit


@jit()
def plus(x):
    return x + {number}
'''


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of our own, as in a fresh process."""
    monkeypatch.setenv("SLICEWISE_CACHE_DIR", str(tmp_path / "asked"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(cache, "_gave_up", False)
    cache.folder.cache_clear()
    yield tmp_path / "asked"
    cache.folder.cache_clear()


def answer(number: int) -> tuple[int, int, int]:
    """The answer of a module that is new to the process, and what was loaded and compiled."""
    source = SOURCE.format(number=number)
    made = cache.module_from(source)
    found = made.plus(1)
    del sys.modules[made.__name__]
    stats = made.plus.stats
    return found, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def test_machine_code_is_found_again(place: Path) -> None:
    assert answer(1) == (2, 0, 1)
    assert answer(1) == (2, 1, 0)
    names = sorted(path.suffix for path in place.iterdir())
    assert names == [".nbc", ".nbi", ".py"]
    assert place.stat().st_mode & 0o777 == 0o700


def test_the_machine_code_of_another_numba_is_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "numba_version", "0.61.0")
    assert answer(1) == (2, 0, 1)
    (index,) = place.glob("*.nbi")
    content = b"c_no_such_module\nName\n."  # its types are of modules that this Numba has not
    index.write_bytes(sha256(content).digest() + content)
    monkeypatch.undo()
    monkeypatch.setenv("SLICEWISE_CACHE_DIR", str(place))
    assert answer(1) == (2, 0, 1)
    assert answer(1) == (2, 1, 0)
    assert len([*place.glob("*.nbi")]) == 2


def test_the_text_of_a_module_is_written_once_and_the_same_everywhere(place: Path) -> None:
    answer(2)
    (file,) = place.glob("*.py")
    assert file.read_bytes() == SOURCE.format(number=2).encode()  # no other ends of lines
    os.utime(file, (1, 1))
    answer(2)
    assert file.stat().st_mtime == 1


@pytest.mark.parametrize("suffix", [".nbc", ".nbi", ".py"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "one bit", "replaced", "longer"])
def test_damaged_files_are_made_anew(place: Path, suffix: str, damage: str) -> None:
    answer(3)
    (file,) = place.glob(f"*{suffix}")
    content = file.read_bytes()
    middle = len(content) // 2
    damaged = {
        "truncated": content[:middle],
        "emptied": b"",
        "one bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "replaced": bytes(len(content)),
        "longer": content + b"more",
    }
    file.write_bytes(damaged[damage])
    if suffix == ".py":  # which is for people; what runs is in memory
        assert answer(3) == (4, 1, 0)
        assert file.read_bytes() == content
        return
    with pytest.warns(CacheWarning, match=r"was damaged, and is made anew.*SLICEWISE_CACHE_DIR"):
        assert answer(3) == (4, 0, 1)
    assert answer(3) == (4, 1, 0)
    assert sorted(path.suffix for path in place.iterdir()) == [".nbc", ".nbi", ".py"]


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up_leaves_code_in_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(4)
    before = set(place.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.warns(CacheWarning, match="No space left on device") as said:
            assert [answer(5), answer(6)] == [(6, 0, 1), (7, 0, 1)]
        assert len(said) == 1
        assert answer(4) == (5, 1, 0)  # what is there is used
    assert set(place.iterdir()) == before
    assert answer(5) == (6, 0, 1)


def test_machine_code_that_does_not_fit_stays_in_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.module_from(SOURCE.format(number=7))
    monkeypatch.setattr("slicewise.codegen.jit.write", full)
    with pytest.warns(CacheWarning, match="No space left") as said:
        assert sys.modules.pop(cache.module_from(SOURCE.format(number=7)).__name__).plus(1) == 8
    assert len(said) == 1
    assert [path.suffix for path in place.iterdir()] == [".py"]


def test_a_disk_without_room_from_the_start_is_left_for_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tempfile.NamedTemporaryFile

    def some(*args: Any, **more: Any) -> Any:
        return full() if str(more["dir"]) == str(place) else plain(*args, **more)

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", some)
    with pytest.warns(CacheWarning, match="asked' cannot be used: No space left") as said:
        assert answer(8) == (9, 0, 1)
    assert len(said) == 1
    assert answer(8) == (9, 1, 0)
    assert cache.folder() == place.parent / "home" / "slicewise"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such rights on Windows")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_no_code_is_run_from_a_folder_that_others_can_write(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    with pytest.warns(CacheWarning, match=r"asked' is not used: others can write to it") as said:
        assert answer(9) == (10, 0, 1)
    assert len(said) == 1
    assert answer(9) == (10, 1, 0)
    assert list(place.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such owners on Windows")
def test_no_code_is_run_from_a_folder_of_another_user(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no folder left there is memory."""
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.warns(CacheWarning) as said:
        assert [answer(10), answer(11)] == [(11, 0, 1), (12, 0, 1)]
    shown = [str(one.message) for one in said]
    assert sum("belongs to another user" in one for one in shown) == 3
    assert len(shown) == 4
    assert "every process compiles anew" in shown[-1]
    assert list(place.iterdir()) == []
    assert [list(path.iterdir()) for path in (place.parent / "temporary").iterdir()] == [[]]


def test_a_home_that_can_only_be_read_is_passed_over_without_a_word(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLICEWISE_CACHE_DIR")
    plain = Path.mkdir

    def mkdir(self: Path, *args: Any, **more: Any) -> None:
        if "home" in self.parts:
            raise PermissionError(errno.EACCES, "Permission denied")
        plain(self, *args, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert answer(12) == (13, 0, 1)
    assert answer(12) == (13, 1, 0)
    found = cache.folder()
    assert found is not None
    assert found.parent == place.parent / "temporary"


PROGRAM = f"""
from slicewise.codegen.cache import module_from
for number in range(20, 23):
    assert module_from('''{SOURCE}'''.format(number=number)).plus(1) == number + 1
"""


@pytest.mark.slow
def test_eight_processes_at_once_share_a_folder(place: Path) -> None:
    program = PROGRAM.replace("'''\"\"\"Made", "'''\\\"\\\"\\\"Made")
    started = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", program], stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    for process in started:
        _, error = process.communicate()
        assert (process.returncode, error) == (0, b"")
    assert [answer(number) for number in range(20, 23)] == [(n + 1, 1, 0) for n in range(20, 23)]
    assert not list(place.glob("*.tmp"))
