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
    written = file.stat()
    answer(2)
    assert file.stat() == written


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


def test_a_folder_that_was_asked_for_and_cannot_be_written_is_said_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Path.mkdir

    def mkdir(self: Path, *args: Any, **more: Any) -> None:
        if self == place:
            raise PermissionError(errno.EACCES, "Permission denied")
        plain(self, *args, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    message = r"asked' cannot be used: Permission denied. `SLICEWISE_CACHE_DIR` can name another"
    with pytest.warns(CacheWarning, match=message) as said:
        assert [answer(13), answer(14)] == [(14, 0, 1), (15, 0, 1)]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numpy_version", "0.0"),
        ("llvmlite_version", "0.0"),
        ("_helpers", lambda: "others"),
        ("SETTINGS", ("OPT",)),
    ],
)
def test_machine_code_that_was_made_otherwise_is_not_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    assert answer(15) == (16, 0, 1)
    monkeypatch.setattr(jit, name, value)
    assert answer(15) == (16, 0, 1)
    monkeypatch.undo()


def old(path: Path, days: float) -> Path:
    """A file that was last used so many days before `NOW`."""
    path.touch()
    os.utime(path, (NOW - days * cache.DAY,) * 2)
    return path


NOW = 1_800_000_000.0


def test_what_was_not_used_for_a_month_is_removed_once_a_day(tmp_path: Path) -> None:
    gone = [old(tmp_path / f"_slicewise_{end}", 31) for end in ("a.py", "a.f.nbi", "a.f.0.nbc")]
    gone.append(old(tmp_path / "_slicewise_half.tmp", 31))
    kept = [old(tmp_path / "_slicewise_b.py", 29), old(tmp_path / "mine.py", 400)]
    kept += [old(tmp_path / "_slicewise_notes.txt", 400), old(tmp_path / "tmp.nbc", 400)]
    folder = tmp_path / "_slicewise_folder.py"
    folder.mkdir()
    os.utime(folder, (0, 0))
    link = tmp_path / "_slicewise_link.py"
    link.symlink_to(kept[1])
    os.utime(link, (0, 0), follow_symlinks=False)
    cache.clean(tmp_path, NOW)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in [*kept, folder, link])
    late = old(tmp_path / "_slicewise_c.py", 31)
    cache.clean(tmp_path, NOW + cache.DAY - 1)
    assert late.exists()  # it was done today
    cache.clean(tmp_path, NOW + cache.DAY)
    assert not late.exists()
    wrong = old(tmp_path / "_slicewise_d.py", 60)
    cache.clean(tmp_path, NOW - cache.DAY)  # a clock that was ahead keeps nothing for ever
    assert not wrong.exists()


def test_what_is_used_is_not_old(place: Path) -> None:
    assert answer(16) == (17, 0, 1)
    files = list(place.iterdir())
    for path in files:
        os.utime(path, (0, 0))
    assert answer(16) == (17, 1, 0)
    assert min(path.stat().st_mtime for path in files) > NOW - 400 * cache.DAY


def test_processes_that_clean_at_once_do_not_mind_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(tmp_path / "_slicewise_a.py", 31)
    plain = os.unlink

    def unlink(path: str) -> None:
        plain(path)
        plain(path)  # as if another process had been first

    monkeypatch.setattr(os, "unlink", unlink)
    cache.clean(tmp_path, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {cache.CLEANED, "temporary"}


def test_a_fresh_process_cleans_its_folder(place: Path) -> None:
    place.mkdir(mode=0o700)
    left = place / "_slicewise_0.py"
    left.touch()
    os.utime(left, (0, 0))
    assert answer(17) == (18, 0, 1)
    assert not left.exists()


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
