"""Tables that `sw.upsert` keeps in databases, without Spark.

Each test runs on SQLite, and on a PostgreSQL server where the programs of one are installed.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import sqlite3
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, MissingDependencyError, TargetError
from slicewise.spark.sinks.parquet_store import ParquetUpsert
from slicewise.spark.sinks.sql_stores import PostgresUpsert, SqliteUpsert, SqlUpsert
from slicewise.spark.sinks.upsert import local_path
from slicewise.tuning import tuned
from tests.support.folded import CURRENT, EMITTED
from tests.support.postgres import programs, server

POSTGRES = programs()
DATABASES = ["sqlite", *(["postgresql"] if POSTGRES else [])]

Row = dict[str, Any]


class Database:
    """A database to keep tables in, and to ask what is in them."""

    def __init__(self, url: str) -> None:
        self.url = url

    def keep(self, table: str, by: Any = None) -> SqlUpsert:
        made = sw.upsert(self.url, table=table, by=by)
        assert isinstance(made, SqlUpsert)
        return made

    def ask(self, question: str) -> list[Row]:
        connection: Any
        if self.url.startswith("sqlite"):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        with closing(connection):
            cursor = connection.cursor()
            cursor.execute(question)
            if cursor.description is None:
                return []
            names = [entry[0] for entry in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    assert POSTGRES is not None
    with server(POSTGRES) as url:
        yield url


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield Database(f"sqlite:///{tmp_path}/answers.db")
        return
    made = Database(request.getfixturevalue("address"))
    made.ask("drop schema public cascade")
    made.ask("create schema public")
    yield made


def rows_of(table: dict[str, list[Any]]) -> list[Row]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def test_the_table_is_the_current_answer(database: Database) -> None:
    keep = database.keep("windows")
    keep.take(pa.table(EMITTED))
    assert database.ask("select * from windows order by n") == rows_of(CURRENT)


@pytest.mark.parametrize("order", [[*range(7)], [6, 5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 6, 2]])
def test_neither_repeated_nor_older_rows_change_it(database: Database, order: list[int]) -> None:
    keep, emitted = database.keep("windows"), pa.table(EMITTED)
    for place in [*order, *order]:
        keep.take(emitted.slice(place, 1))
        keep.take(emitted.slice(place, 1))
    assert database.ask("select * from windows order by n") == rows_of(CURRENT)


def test_what_was_retracted_is_remembered_and_can_come_back(database: Database) -> None:
    keep, emitted = database.keep("windows"), pa.table(EMITTED)
    keep.take(emitted.take([1, 4]))
    assert database.ask("select * from windows") == []
    keep.take(emitted.slice(1, 1))
    assert database.ask("select * from windows") == []
    assert database.ask("select revision, n from windows_revisions") == [{"revision": 1, "n": None}]
    keep.take(emitted.slice(5, 1))
    assert database.ask("select n from windows") == [{"n": 6}]


def test_final_rows_have_no_revisions(database: Database) -> None:
    keep, final = database.keep("windows"), pa.table(CURRENT)
    keep.take(final)
    keep.take(final)
    assert database.ask("select * from windows order by n") == rows_of(CURRENT)


def test_a_first_batch_without_rows_makes_the_table(database: Database) -> None:
    keep = database.keep("windows")
    keep.take(pa.table(EMITTED).slice(0, 0))
    assert database.ask("select * from windows") == []


def test_values_of_every_type(database: Database) -> None:
    zone = dt.timezone(dt.timedelta(hours=-5))
    instant = dt.datetime(2026, 3, 1, 7, 0, 0, 250_000, zone)
    moment, day = dt.datetime(2026, 3, 1, 12), dt.date(2026, 3, 1)
    columns: dict[str, pa.Array] = {
        "at": pa.array([instant], pa.timestamp("us", "America/New_York")),
        "moment": pa.array([moment], pa.timestamp("us")),
        "day": pa.array([day]),
        "hour": pa.array([dt.time(7, 30)]),
        "money": pa.array([Decimal("1.20")]),
        "raw": pa.array([b"\x00\x01"]),
        "yes": pa.array([True]),
        "window": pa.array(["w"]),
        "start": pa.array([moment], pa.timestamp("us")),
        "end": pa.array([moment], pa.timestamp("us")),
        "big": pa.array([2**62]),
        "part": pa.array([0.5]),
        "long": pa.array([dt.timedelta(seconds=2)], pa.duration("us")),
        "all": pa.array([[1.5, math.nan, None, math.inf]]),
        "pair": pa.array([{"x": 1, "at": day}]),
        "tally": pa.array([{"p": 2}], pa.map_(pa.string(), pa.int64())),
        "word": pa.array(["é'\"%s"]).dictionary_encode(),
        "never": pa.nulls(1),
    }
    keep = database.keep("windows")
    for _ in range(2):  # every type of key is found again
        keep.take(pa.table(columns))
    [row] = database.ask("select * from windows")
    assert list(row) == list(columns)
    assert json.loads(row["all"]) == [1.5, "NaN", None, "Infinity"]
    assert json.loads(row["pair"]) == {"x": 1, "at": "2026-03-01"}
    assert json.loads(row["tally"]) in ({"p": 2}, [["p", 2]])
    assert row["word"] == "é'\"%s"
    assert (row["big"], row["part"], row["long"], row["never"]) == (2**62, 0.5, 2_000_000, None)
    assert bytes(row["raw"]) == b"\x00\x01"
    assert row["yes"] == 1
    if database.url.startswith("sqlite"):
        assert row["at"] == "2026-03-01 12:00:00.250000+00:00"
        assert (row["moment"], row["day"]) == ("2026-03-01 12:00:00", "2026-03-01")
        assert (row["hour"], row["money"]) == ("07:30:00", "1.20")
    else:
        assert (row["at"], row["moment"], row["day"]) == (instant, moment, day)
        assert (row["hour"], row["money"]) == (dt.time(7, 30), Decimal("1.20"))


def test_null_nan_and_zero_keys_are_one_instance_each(database: Database) -> None:
    keys = [None, math.nan, 0.0, None, math.nan, -0.0]
    table: dict[str, list[Any]] = {"k": keys, "window": ["w"] * 6, "start": [0] * 6, "end": [1] * 6}
    table |= {"n": [1, 2, 3, 4, 5, 6], "revision": [0] * 3 + [1] * 3, "retracted": [False] * 6}
    keep = database.keep("windows")
    keep.take(pa.table(table).slice(0, 3))
    keep.take(pa.table(table).slice(3, 3))
    assert database.ask("select n from windows order by n") == [{"n": 4}, {"n": 5}, {"n": 6}]


def test_keys_that_look_alike_are_different_instances(database: Database) -> None:
    table: dict[str, list[Any]] = {"a": ["x,y", "x", "null", None], "b": ["z", "y,z", None, "null"]}
    table |= {"window": ["w"] * 4, "start": [0] * 4, "end": [1] * 4, "n": [1, 2, 3, 4]}
    database.keep("windows").take(pa.table(table))
    assert len(database.ask("select * from windows")) == 4


def test_columns_may_have_any_name(database: Database) -> None:
    names = {"k": "select", "n": 'a "b" %s %d.e?'}
    odd = pa.table({names.get(name, name): values for name, values in EMITTED.items()})
    keep = database.keep("windows")
    keep.take(odd)
    keep.take(odd)
    found = {tuple(row) for row in database.ask("select * from windows")}
    assert found == {("select", "window", "start", "end", 'a "b" %s %d.e?')}


def test_aggregates_may_come_and_go(database: Database) -> None:
    keep, emitted = database.keep("windows"), pa.table(EMITTED)
    keep.take(emitted.slice(0, 3))
    keep.take(emitted.slice(3).rename_columns({"n": "m"}))
    found = database.ask("select * from windows order by m")
    assert found == [
        {"k": "a", "window": "w", "start": 0, "end": 5, "n": None, "m": 4},
        {"k": None, "window": "w", "start": 0, "end": 5, "n": None, "m": 6},
    ]


def test_other_keys_are_refused_and_change_nothing(database: Database) -> None:
    database.keep("windows").take(pa.table(EMITTED))
    other = pa.table({"j": [1] * 7, **EMITTED})
    message = r"The table 'windows' has the keys \['k'\]; this stream has \['j', 'k'\]"
    with pytest.raises(TargetError, match=message):
        database.keep("windows").take(other)
    assert len(database.ask("select * from windows")) == 2


def test_keys_may_be_named(database: Database) -> None:
    moved = pa.table({name: EMITTED[name] for name in [*list(EMITTED)[1:], "k"]})
    keep = database.keep("windows", by="k")
    keep.take(moved)
    keep.take(moved)
    assert len(database.ask("select * from windows")) == 2


def test_a_table_of_somebody_else_is_left_alone(database: Database) -> None:
    database.ask("create table windows (x integer)")
    with pytest.raises(TargetError, match=r"has a table 'windows' that `sw\.upsert` did not make"):
        database.keep("windows").take(pa.table(EMITTED))
    assert database.ask("select * from windows") == []


def test_a_batch_that_fails_leaves_nothing_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, emitted = database.keep("windows"), pa.table(EMITTED)
    keep.take(emitted.slice(0, 1))
    values, calls = SqlUpsert._values, []

    def failing(self: SqlUpsert, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise RuntimeError("out of luck")
        return values(self, *arguments)

    monkeypatch.setattr(SqlUpsert, "_values", failing)
    with tuned(rows_sent=1), pytest.raises(RuntimeError, match="out of luck"):
        keep.take(emitted)
    assert database.ask("select n from windows") == [{"n": 1}]
    keep.take(emitted)
    assert len(database.ask("select n from windows")) == 2


def test_a_table_may_be_in_a_schema_where_there_are_any(database: Database) -> None:
    schema = ""
    if database.url.startswith("postgresql"):
        schema = "answers."
        database.ask("drop schema if exists answers cascade")
        database.ask("create schema answers")
    database.keep(f"{schema}windows").take(pa.table(EMITTED))
    assert len(database.ask(f"select * from {schema}windows")) == 2


def test_the_statement_that_keeps_a_row() -> None:
    keep = PostgresUpsert("postgresql://localhost/db", "public.windows", None)
    assert keep.statement(["k", "50%", "revision"]) == (
        'insert into "public"."windows_revisions" ("slicewise_instance", "k", "50%%", "revision") '
        'values (%s, %s, %s, %s) on conflict ("slicewise_instance") do update set '
        '"k" = excluded."k", "50%%" = excluded."50%%", "revision" = excluded."revision" '
        'where excluded."revision" > "public"."windows_revisions"."revision"'
    )


def test_an_absolute_path_has_four_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///near.db", f"sqlite:///{tmp_path}/far.db"):
        keep = sw.upsert(url, table="windows")
        assert isinstance(keep, SqliteUpsert)
        keep.take(pa.table(EMITTED))
    assert {path.name for path in tmp_path.iterdir()} == {"near.db", "far.db"}


def test_it_can_be_sent_elsewhere() -> None:
    keep = sw.upsert("postgresql://me:secret@server/db", table="windows")
    assert repr(pickle.loads(pickle.dumps(keep))) == (
        "upsert('postgresql://...@server/db', table='windows')"
    )
    assert repr(sw.upsert("/data/answers")) == "upsert('/data/answers')"


ADDRESSES = {  # what is read of an address
    "postgresql://me:S3cret@server/db": ("me", "S3cret", "server", "db"),
    "postgres://me:S3cret@server:5433/db": ("me", "S3cret", "server", "db"),
    "PostgreSQL://me:S3cret@server/db": ("me", "S3cret", "server", "db"),
    "postgresql+psycopg://me:S3cret@server/db": ("me", "S3cret", "server", "db"),
    "postgresql://server/db?user=me&password=S3cret": ("me", "S3cret", "server", "db"),
    "postgresql://me@server/db?password=S3@cret/x": ("me", "S3@cret/x", "server", "db"),
    "postgresql://me:a%40S3cret%2Fb@server/db": ("me", "a@S3cret/b", "server", "db"),
    "postgresql://me@server?password=S3@cret": ("me", "S3@cret", "server", None),
    "postgresql://me:S3cret:b#c@server": ("me", "S3cret:b#c", "server", None),
    "postgresql://me:S3cret@one:1,two:2/db": ("me", "S3cret", "one,two", "db"),
    "postgresql:///db?host=/run/pg&password=S3cret": (None, "S3cret", "/run/pg", "db"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_the_password_of_an_address_is_used_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def connect(**options: Any) -> Any:
        asked.update(options)
        raise psycopg.OperationalError("out of order")

    monkeypatch.setattr(psycopg, "connect", connect)
    keep = sw.upsert(url, table="windows")
    assert isinstance(keep, PostgresUpsert)
    assert repr(keep).startswith("upsert('postgresql://")
    assert "cret" not in repr(keep) + str(keep) + f"{[keep]}"
    with pytest.raises(psycopg.OperationalError) as caught:
        keep.take(pa.table(EMITTED))
    assert "cret" not in "".join(traceback.format_exception(caught.value))
    assert tuple(map(asked.get, ("user", "password", "host", "dbname"))) == ADDRESSES[url]


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://me:p@S3cret@server/db",
        "postgresql://me:p/S3cret@server/db",
        "postgresql://me:12/S3cret@server/db",
        "postgresql://me:p?S3cret@server/db",
        "postgresql://me:p?user=S3cret@server/db",
        "postgresql://me:S3%cret@server/db",
        "postgresql://server?user=S3cret@server/db",
        "postgresql://server:5432?password=S3@cret",
        "postgresql://server/db?passwort=S3cret",
        "postgresql://me:S3cret",
        "postgresql+asyncpg://me:S3cret@server/db",
        "jdbc:postgresql://server/db?user=me&password=S3cret",
        "mysql://me:S3cret@server/db",
        "s3a://key:S3cret@bucket/answers",
        "sqlite://me:S3cret@server/db",
        "host=server user=me password=S3cret",
        "host=server Password = S3cret",
    ],
)
@pytest.mark.parametrize("table", ["windows", None, "a b"])
def test_no_error_about_an_address_shows_its_password(target: str, table: str | None) -> None:
    with pytest.raises(TargetError) as caught:
        sw.upsert(target, table=table)
    shown = "".join(traceback.format_exception(caught.value))
    assert "cret" not in shown.replace("S3cret,", "")
    if table == "windows" and target.startswith("postgresql:"):
        assert "`@ : / ? # %` in a user name or password as %40" in str(caught.value)


@pytest.mark.parametrize(
    "target", ["s3a://bucket/answers", "hdfs:/answers", "dbfs:/x", "mysql://server/db", ""]
)
def test_an_unknown_target_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match="`upsert` knows a folder for Parquet files, 'sqlite:"):
        sw.upsert(target)
    if target:
        scheme = target.partition(":")[0]
        message = f"begins with '{scheme}:'. A folder of HDFS or of an object store has to be mount"
        with pytest.raises(TargetError, match=message):
            sw.upsert(Path(target))


@pytest.mark.parametrize("address", ["file:{}", "file://{}", "file://localhost{}", "{}"])
def test_a_folder_may_be_an_address(address: str, tmp_path: Path) -> None:
    keep = sw.upsert(address.format(tmp_path / "a b"))
    assert isinstance(keep, ParquetUpsert)
    assert keep.folder == tmp_path / "a b"


@pytest.mark.parametrize(
    "address", ["file:answers", "file://server/answers", "file:", "file:///a%20b"]
)
def test_a_doubtful_address_of_a_folder_is_refused(address: str) -> None:
    with pytest.raises(TargetError, match="The address of a folder is 'file:' with an absolute p"):
        sw.upsert(address)


def test_a_folder_that_spark_cannot_read_is_refused() -> None:
    with pytest.raises(TargetError, match=r"no folder with a colon and one of `\[ \] "):
        sw.upsert("/data/12:00 [1]")


def test_addresses_of_folders_on_windows() -> None:
    for rest in ("///C:/data/x", "/C:/data/x", "//localhost/C:/data/x"):
        assert local_path(rest, windows=True) == "C:/data/x"
        assert local_path(rest, windows=False) == "/C:/data/x"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://answers.db"])
def test_sqlite_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(TargetError, match="SQLite is named by its file"):
        sw.upsert(url, table="windows")


@pytest.mark.parametrize("table", ["", "1st", "a b", 'a"b', "a;b", "x" * 53, "a.b", "a.b.c"])
def test_a_bad_name_of_a_table_is_refused(table: str) -> None:
    with pytest.raises(TargetError, match="The name of a table has at most 52 letters"):
        sw.upsert("sqlite:///answers.db", table=table)
    if table != "a.b":
        with pytest.raises(TargetError, match="after a schema and a dot"):
            sw.upsert("postgresql://server/db", table=table)


def test_a_database_needs_the_name_of_a_table_and_a_folder_has_none() -> None:
    with pytest.raises(TargetError, match="needs the name of a `table`; given: None"):
        sw.upsert("sqlite:///answers.db")
    with pytest.raises(TargetError, match="`table` is for databases; given: 'windows'"):
        sw.upsert("answers", table="windows")


def test_without_the_driver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'slicewise\[postgres\]'"):
        sw.upsert("postgresql://server/db", table="windows")


def test_a_database_is_read_by_its_own_means() -> None:
    spark: Any = None
    with pytest.raises(CapabilityError, match="`select \\* from windows`"):
        sw.upsert("sqlite:///answers.db", table="windows").read(spark)


def changed(name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    """Emitted rows of one instance, a newer revision, with another type of a column."""
    row = {"k": ["a"], "window": ["w"], "start": [0], "end": [5], "n": [1]}
    row |= {"revision": [9], "retracted": [False]}
    table = pa.table(row)
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, kind))


OTHER_TYPES: dict[str, tuple[str, Any, pa.DataType]] = {
    "a float": ("n", 0.5, pa.float64()),
    "a text": ("n", "many", pa.string()),
    "a decimal": ("n", Decimal("1.5"), pa.decimal128(10, 2)),
    "a boolean": ("n", True, pa.bool_()),
    "a moment": ("n", dt.datetime(2026, 3, 1), pa.timestamp("us")),
    "another bound": ("start", dt.datetime(2026, 3, 1), pa.timestamp("us")),
    "another key": ("k", 1, pa.int64()),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_a_column_that_changes_its_type_is_refused(database: Database, case: str) -> None:
    name, value, kind = OTHER_TYPES[case]
    keep = database.keep("windows")
    keep.take(pa.table(EMITTED))
    before = database.ask("select * from windows order by n")
    message = rf"The table 'windows' holds \w+ in the column '{name}'; this stream brings "
    with pytest.raises(TargetError, match=message):
        keep.take(changed(name, [value], kind).append_column("m", pa.array([1])))
    assert database.ask("select * from windows order by n") == before  # and no column `m`
    other = changed(name, [value], kind)
    again = database.keep("others")
    again.take(other)
    with pytest.raises(TargetError, match=rf"in the column '{name}'; this stream brings "):
        again.take(pa.table(EMITTED))


def test_numbers_of_other_widths_and_nothing_but_nulls_are_taken(database: Database) -> None:
    keep = database.keep("windows")
    keep.take(pa.table(EMITTED))
    for number, kind in enumerate((pa.int32(), pa.int8(), pa.null())):
        table = changed("n", [None if pa.types.is_null(kind) else number], kind)
        keep.take(table.set_column(5, "revision", pa.array([9 + number])))
    assert {"n": None} in database.ask("select n from windows where k = 'a' and start = 0")


def test_writers_of_one_table_take_turns_from_its_first_row_on(database: Database) -> None:
    writers = 6
    for round_ in range(3):
        keep, barrier = database.keep(f"round_{round_}"), Barrier(writers)

        def write(number: int, keep: Any = keep, barrier: Any = barrier) -> None:
            keys = [f"{number} {k}" for k in range(20)]
            shared = [str(k) for k in range(20)]
            # Each comes to the shared rows from another side.
            names = [*keys, *(shared if number % 2 else reversed(shared))]
            count = len(names)
            rows = {"k": names, "window": ["w"] * count, "start": [0] * count, "end": [1] * count}
            rows |= {"revision": [number] * count, "retracted": [False] * count}
            barrier.wait()
            keep.take(pa.table(rows))

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))
        assert database.ask(f"select count(*) as n from round_{round_}") == [{"n": 140}]


def test_a_text_with_nul_is_stored(database: Database) -> None:
    table = pa.table({**EMITTED, "s": ["a\0b", "\0", "\u2400", None, "", "é", "x"]})
    table = table.set_column(0, "k", pa.array(["\0", "\u2400", "\0\0", "", "x", "y", "z"]))
    table = table.append_column("l", pa.array([["a\0b"]] * 7))
    keep = database.keep("windows")
    for _ in range(2):
        keep.take(table)
    nul = "\0" if database.url.startswith("sqlite") else "\u2400"
    found = database.ask("select k, s, l from windows_revisions")
    assert len(found) == 7  # keys that look alike in the database are different instances
    assert {row["s"] for row in found} == {f"a{nul}b", nul, "\u2400", None, "", "é", "x"}
    assert {row["k"] for row in found} == {nul, "\u2400", nul * 2, "", "x", "y", "z"}
    assert {row["l"] for row in found} == {'["a\\u0000b"]'}


def test_a_text_that_is_no_utf8_is_stored(database: Database) -> None:
    column = pa.array([b"a\xffb"] * 6 + [None]).view(pa.string())
    lists = pa.ListArray.from_arrays(range(8), column)
    structs = pa.StructArray.from_arrays([column, pa.array(range(7))], ["s", "n"])
    given = {**EMITTED, "s": column, "l": lists, "o": structs}
    database.keep("windows").take(pa.table(given))
    found = database.ask("select s, l, o from windows_revisions where s is not null")
    assert {row["s"] for row in found} == {"a\ufffdb"}
    assert {row["l"] for row in found} == {'["a\ufffdb"]'}
    assert {row["o"][:10] for row in found} == {'{"s":"a\ufffdb"'}


def test_long_names_of_columns(database: Database) -> None:
    long = "x" * 62 + "é"  # 64 bytes
    table = pa.table({**EMITTED, long: [1] * 7})
    keep = database.keep("windows")
    if database.url.startswith("sqlite"):
        for _ in range(2):
            keep.take(table)
        assert long in database.ask("select * from windows")[0]
        return
    message = "PostgreSQL cuts names after 63 bytes, and the column 'x+é' has 64. Rename it"
    with pytest.raises(TargetError, match=message):
        keep.take(table)
    keep.take(pa.table(EMITTED))
    with pytest.raises(TargetError, match=message):
        keep.take(table)
    fits = pa.table({**EMITTED, "x" * 63: [1] * 7})
    for _ in range(2):
        keep.take(fits)


def test_columns_whose_names_differ_in_case(database: Database) -> None:
    table = pa.table({**EMITTED, "N": [1] * 7})
    upper = pa.table(EMITTED).rename_columns({"n": "N"})
    keep = database.keep("windows")
    if database.url.startswith("postgresql"):
        for rows in (table, upper, table):
            keep.take(rows)
        assert {"n", "N"} <= database.ask("select * from windows")[0].keys()
        return
    message = "SQLite takes the columns 'n' and 'N' for one, since they differ only in case"
    with pytest.raises(TargetError, match=message):
        keep.take(table)
    keep.take(pa.table(EMITTED))
    with pytest.raises(TargetError, match=message):
        keep.take(upper)


def test_tables_whose_names_differ_in_case(database: Database) -> None:
    database.keep("windows").take(pa.table(EMITTED))
    upper = database.keep("Windows")
    if database.url.startswith("postgresql"):
        upper.take(pa.table(EMITTED))
        return
    message = "has 'windows_revisions', which SQLite does not tell from 'Windows_revisions'"
    with pytest.raises(TargetError, match=message):
        upper.take(pa.table(EMITTED))


@pytest.mark.parametrize("name", ["slicewise_instance", "a\0b"])
def test_names_that_no_column_can_have_are_refused(database: Database, name: str) -> None:
    with pytest.raises(TargetError, match=r"A table of `sw\.upsert` can have no column"):
        database.keep("windows").take(pa.table({**EMITTED, name: [1] * 7}))
