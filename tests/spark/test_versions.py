"""Which Spark and which Python of its workers is taken, and what is said of others."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import CapabilityError
from slicewise.spark import compat
from slicewise.spark.sending import check_workers, pickled, portable, sent
from tests.support.spark import frame_of

QUERY: dict[str, Any] = {"time": "t", "windows": sw.tumbling(10), "aggs": sw.agg.sum("x")}


@pytest.mark.parametrize("version", ["3.5.9", "3.4.0"])
def test_a_spark_that_is_too_old_is_refused_when_its_frame_comes(
    spark: Any, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    frame = frame_of(spark, [])
    monkeypatch.setattr("pyspark.__version__", version)
    rolled = {**QUERY, "over": 10}
    del rolled["windows"]
    said = f"runs on Spark 4.0 and newer; this DataFrame is one of Spark {version}"
    for ask in (
        lambda: sw.windowed(frame, **QUERY),
        lambda: sw.rolling(frame, **rolled),
        lambda: sw.explain(frame, **QUERY),
        lambda: sw.fold(frame),
        lambda: sw.drain("checkpoint", spark=spark),
        lambda: sw.upsert("folder")(frame, 0),
    ):
        with pytest.raises(CapabilityError, match=said):
            ask()


def connected(version: str) -> Any:
    """A DataFrame of Spark Connect before Spark 4, which is no `pyspark.sql.DataFrame`."""
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    frame: Any = kind()
    frame.sparkSession = SimpleNamespace(version=version)
    return frame


def test_an_old_connect_server_is_refused_too() -> None:
    with pytest.raises(CapabilityError, match=r"one of Spark 3\.5\.2\. Use a newer Spark"):
        sw.windowed(connected("3.5.2"), **QUERY)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "17.3.1", "5.0.0-SNAPSHOT", "client.2"])
def test_newer_and_other_numbers_are_taken(version: str) -> None:
    compat.check_spark(SimpleNamespace(version=version))


def test_the_number_of_shuffle_partitions_may_be_auto(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = type(spark.conf).get

    def get(conf: Any, key: str, *rest: Any) -> Any:
        return "auto" if key == "spark.sql.shuffle.partitions" else known(conf, key, *rest)

    monkeypatch.setattr(type(spark.conf), "get", get)
    assert compat.shuffle_partitions(spark) == 200
    stream = spark.readStream.format("rate").load()
    query: Any = {"time": "timestamp", "by": "value", "watermark": "1s"}
    windowed = sw.windowed(stream, windows=sw.tumbling("1s"), aggs=sw.agg.count(), **query)
    assert windowed.columns[:2] == ["value", "window"]
    assert (
        "value_sum_1s" in sw.rolling(stream, over="1s", aggs=sw.agg.sum("value"), **query).columns
    )


def program(folder: Path, prints: str) -> str:
    """A program that stands in for a Python."""
    path = folder / f"python{len(list(folder.iterdir()))}"
    path.write_text(f"#!/bin/sh\n{prints}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def classic(python: str, master: str = "local[2]", files: tuple[str, ...] = ()) -> Any:
    context = SimpleNamespace(pythonExec=python, master=master, listFiles=files, listArchives=())
    return SimpleNamespace(sparkContext=context)


OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_workers_on_this_machine_run_the_python_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    for master in ("local", "local[2]", "local-cluster[2,1,1024]"):
        session = classic("python3", master)
        check_workers(session)
        assert session.sparkContext.pythonExec == sys.executable
    # Other machines have other paths.
    session = classic("python3", "spark://host:7077")
    check_workers(session)
    assert session.sparkContext.pythonExec == "python3"
    # Who chose one wants that.
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    monkeypatch.setattr("slicewise.spark.sending._probed", lambda path: [OURS])
    session = classic("python3")
    check_workers(session)
    assert session.sparkContext.pythonExec == "python3"


@pytest.mark.parametrize(
    ("prints", "what"),
    [
        (f"echo {OURS} slicewise numba", "has no module 'slicewise'"),
        (f"echo {OURS} pyarrow", "has no module 'pyarrow'"),
        ("echo 3.9 slicewise", f"has version 3.9 and not {OURS}"),
        ("exit 1", "cannot be started"),
    ],
)
def test_a_python_that_cannot_run_tasks_is_refused_before_the_first_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, what: str
) -> None:
    python = program(tmp_path, prints)
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    said = (
        f"Spark's workers run {python}, which {what}; this program runs {sys.executable}. Set the "
        f"environment variable PYSPARK_PYTHON to {sys.executable} before Spark starts."
    )
    with pytest.raises(CapabilityError) as caught:
        check_workers(classic(python))
    assert str(caught.value) == said
    # A Connect server of this process has the environment of this process.
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    with pytest.raises(CapabilityError) as caught:
        check_workers(SimpleNamespace())
    assert str(caught.value) == said
    # What is not known is left to Spark: packages may be sent along, and servers be elsewhere.
    check_workers(classic(python, files=("packages.zip",)))
    check_workers(classic(python, master="yarn"))
    with monkeypatch.context() as databricks:
        databricks.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
        check_workers(classic(python))
    monkeypatch.delenv("SPARK_LOCAL_REMOTE")
    check_workers(SimpleNamespace())


def test_a_python_that_has_everything_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(tmp_path, f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    check_workers(classic(python))


def test_a_python_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/python")
    with pytest.raises(CapabilityError, match="run /no/python, which cannot be started"):
        check_workers(classic("/no/python"))


def test_a_query_is_refused_when_it_is_made(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python")
    frame = frame_of(spark, [])
    with pytest.raises(CapabilityError, match="which cannot be started"):
        sw.windowed(frame, **{**QUERY, "windows": sw.session(3)})
    sw.windowed(frame, **{**QUERY, "aggs": sw.agg.max("x")})  # Spark answers that alone


def test_a_worker_without_the_package_says_so_in_a_sentence(spark: Any) -> None:
    task = sent(frame_of(spark, []), sw.agg.sum("x").fold)
    content = pickled(task)
    assert task([1, 2]) == 3
    code = (
        "import pickle, sys; sys.modules['slicewise'] = None; "
        "task = pickle.loads(sys.stdin.buffer.read()); print(task.__name__); task([1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=content, capture_output=True, check=False
    )
    assert done.stdout.decode().split() == ["fold"]
    assert done.stderr.decode().splitlines()[-1] == (
        f"ModuleNotFoundError: The Python of Spark's workers, {sys.executable}, has no module "
        f"'slicewise'; the program runs {sys.executable} ({OURS}). Install the same packages on "
        "every worker, or start Spark with the environment variable PYSPARK_PYTHON set to a Python "
        "that has them."
    )


def test_a_task_is_unpickled_once() -> None:
    class Loud:
        count = 0

        def __reduce__(self) -> Any:
            return counted, ()

    task = portable(pickle.dumps(Loud()), "loud")
    LOADED.clear()
    assert [task(1), task(2)] == [2, 3]
    assert LOADED == [1]


LOADED: list[int] = []


def counted() -> Any:
    LOADED.append(1)
    return lambda number: number + 1
