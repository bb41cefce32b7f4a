"""A PostgreSQL server of its own for the tests, where its programs are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def programs() -> Path | None:
    """The folder with PostgreSQL's programs, or `None`."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    # Debian keeps the server's programs out of PATH, by version.
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A running server with an empty database; yields its address."""
    # The server refuses to run as root.
    who: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="postgres") as made:
        if who:
            shutil.chown(made, "nobody")
        data, log = Path(made, "data"), Path(made, "log")

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [folder / program, *arguments],
                cwd=made,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=120,
                check=False,
                **who,
            )
            assert done.returncode == 0, done.stderr

        run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-p {port} -h 127.0.0.1 -k {made} -F"
        run("pg_ctl", "-D", str(data), "-o", options, "-l", str(log), "-w", "start")
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
