"""The demo runs as a stranger would run it, on fewer events; its report is drawn in Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicewise as sw

ROOT = Path(__file__).parents[2]
EVENTS = 60_000
HEADINGS = ["sensor", "start", "end", "reports", "mean m/s", "top m/s", "least m/s", "spread m/s"]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Demo(NamedTuple):
    said: str
    report: Path
    findings: dict[str, Any]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    report = tmp_path_factory.mktemp("demo") / "report.html"
    sizes = ["--events", str(EVENTS), "--files", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *sizes, "--report", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    page = report.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="findings">(.*?)</script>', page)
    return Demo(done.stdout, report, json.loads(found))


def test_the_demo_shows_its_tables_that_batch_and_stream_agree_and_its_time(demo: Demo) -> None:
    said = demo.said
    assert "A football match of 60,000 events from 27 sensors." in said
    assert "20 % of them arrive up to 2 s late; none is dropped." in said
    parts = re.split(
        r"(run|last minute|2000 reports|minute so far): where the speed varied most", said
    )
    assert parts[1::2] == ["run", "last minute", "2000 reports", "minute so far"]
    for table in parts[2::2]:
        assert [name for name in HEADINGS if name not in table] == []
        assert len(re.findall(r"^│.*│$", table, re.MULTILINE)) == 3
    (rows,) = re.findall(r"the batch run of the same definition has the same ([\d,]+) rows", said)
    assert int(rows.replace(",", "")) > 1000
    assert re.search(r"[\d.]+ s against [\d.]+ s of Spark's window\(\): [\d.]+ x\.", said)
    assert said.splitlines()[-1] == str(demo.report)
    printed = iter(map(shape, said.splitlines()))
    # All lines of the readme, in their order.
    assert [line for line in excerpt() if shape(line) not in printed] == []


def excerpt() -> list[str]:
    """What the readme shows of the demo."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(A football match.*?)\n```", readme, re.DOTALL)
    return [line for line in shown.splitlines() if line != "..."]


def shape(line: str) -> str:
    """A line without its figures and widths."""
    line = re.sub(r"\d[\d.,:]*\d|\d", "0", line.strip())
    return re.sub(r"([ ━─])+", r"\1", line)


def test_a_value_that_only_stream_or_batch_has_is_a_difference(spark: Any) -> None:
    agreed = import_module("examples.demo.runs").agreed
    bounds = "start bigint, end bigint, start_position bigint, end_position bigint"
    values = "count bigint, mean double, top double, spread double, metres double, least double"
    schema = f"sensor bigint, window string, {bounds}, {values}"

    def answer(spread: float | None) -> Any:
        row = (1, "run", 0, 5, None, None, 1, 2.0, 2.0, spread, 0.1, 2.0)
        return spark.createDataFrame([row], schema)

    assert agreed(answer(None), answer(None)) == 1
    assert agreed(answer(0.5), answer(0.5 + 1e-12)) == 1
    for ours, theirs in ((None, 0.5), (0.5, None), (0.5, 0.6)):
        with pytest.raises(AssertionError, match="1 rows differ between stream and batch"):
            agreed(answer(ours), answer(theirs))


# The values in the report.


@pytest.fixture(scope="module")
def match() -> pa.Table:
    """The events of the demo, with their times in microseconds since the kick-off."""
    made = import_module("examples.demo.match").make_match(EVENTS)
    times = pc.subtract(made["t"].cast(pa.int64()), pc.min(made["t"]).cast(pa.int64()))
    begin = import_module("examples.demo.findings").since_kick_off(made).min()
    return made.set_column(0, "t", pc.add(times, round(begin * 1e6)))


def of_sensor(match: pa.Table, demo: Demo) -> pa.Table:
    return match.filter(pc.equal(match["sensor"], demo.findings["sensor"]))


def micros(row: dict[str, Any]) -> tuple[int, int]:
    return round(row["start"] * 1e6), round(row["end"] * 1e6)


def test_sessions_of_the_report_are_those_of_the_batch_run(demo: Demo, match: pa.Table) -> None:
    aggs = [sw.agg.count(), sw.agg.max("speed").alias("top"), sw.agg.mean("speed").alias("mean")]
    answer = sw.windowed(match, by="sensor", time="t", windows=sw.session(3_000_000), aggs=aggs)
    shown = {(row["sensor"], *micros(row)): row for row in demo.findings["sessions"]}
    assert len(shown) == answer.num_rows == len(demo.findings["sessions"])
    for row in answer.to_pylist():
        found = shown[row["sensor"], row["start"], row["end"]]
        assert (found["count"], found["top"]) == (row["count"], row["top"])
        assert found["mean"] == pytest.approx(row["mean"])


def test_each_step_of_a_zoom_has_the_speeds_of_its_reports(demo: Demo, match: pa.Table) -> None:
    reports = of_sensor(match, demo).sort_by("t")
    shown = Counter(row["zoom"] for row in demo.findings["zooms"])
    assert shown.keys() == {"whole match", "12 seconds", "1 second"}
    for row in demo.findings["zooms"]:
        start, end = micros(row)
        now = pc.and_(pc.greater_equal(reports["t"], start), pc.less(reports["t"], end))
        speeds = reports["speed"].filter(now).to_pylist()
        wanted = (len(speeds), min(speeds), max(speeds), speeds[0], speeds[-1])
        assert tuple(row[name] for name in ("count", "min", "max", "first", "last")) == wanted
    whole = [row["count"] for row in demo.findings["zooms"] if row["zoom"] == "whole match"]
    assert sum(whole) == reports.num_rows


def test_every_window_of_the_timeline_is_made_of_whole_slices(demo: Demo, match: pa.Table) -> None:
    reports = of_sensor(match, demo)
    aggs = [sw.agg.count(), sw.agg.max("speed").alias("top")]
    windows = [
        sw.sliding(20_000_000, every=5_000_000),
        sw.cumulate(30_000_000, every=10_000_000),
        sw.session(3_000_000),
        sw.tumbling(sw.rows(2000)),
        sw.punctuated("kick"),
    ]
    answer = sw.windowed(reports, time="t", windows=windows, aggs=aggs)
    values = Counter(zip(answer["count"].to_pylist(), answer["top"].to_pylist()))
    instances = demo.findings["instances"]
    assert Counter((row["count"], row["top"]) for row in instances) == values
    for kind in ("of time", "in order"):
        slices = [row for row in demo.findings["slices"] if row["slices"] == kind]
        assert sum(row["count"] for row in slices) == reports.num_rows
    timed = [row for row in demo.findings["slices"] if row["slices"] == "of time"]
    for row in instances:
        if row["window"].startswith(("sliding", "cumulate", "session")):
            inside = [s for s in timed if row["start"] <= s["start"] and s["end"] < row["end"]]
            assert sum(s["count"] for s in inside) == row["count"]


def test_the_last_revisions_are_the_answer_of_the_batch_run(demo: Demo, match: pa.Table) -> None:
    rows = demo.findings["revisions"]
    last = {micros(row): row for row in rows}
    aggs = [sw.agg.count(), sw.agg.sum("distance").alias("metres")]
    answer = sw.windowed(match, time="t", windows=sw.tumbling(5_000_000), aggs=aggs)
    assert len(last) == answer.num_rows < len(rows)
    for row in answer.to_pylist():
        found = last[row["start"], row["end"]]
        assert found["count"] == row["count"]
        assert found["metres"] == found["final"] == pytest.approx(row["metres"])
    assert sum(row["events"] for row in demo.findings["lateness"]) > EVENTS // 10


def test_the_report_says_how_streams_ran_and_on_what(demo: Demo) -> None:
    runs = demo.findings["runs"]
    assert [run["name"] for run in runs] == ["slicewise", "Slicewise", "window()"]
    for run in runs:
        assert run["events"] == EVENTS
        assert run["seconds"] > 0
        assert run["state_bytes"] > 0
    said = {row["name"]: row["value"] for row in demo.findings["settings"]}
    assert re.search(
        r"Slicewise [\d.]+, Python [\d.]+, Spark [\d.]+, Java [\d.]+", said["versions"]
    )
    assert said["spark.sql.shuffle.partitions"] == "2"


# The charts of the report, in a browser.


class Drawn(HTMLParser):
    """How many marks of each kind a page has, by the id of the chart."""

    SHAPES = ("path", "line", "text")

    def __init__(self) -> None:
        super().__init__()
        self.chart = ""
        self.kinds: list[str] = []  # of marks, for each group that is open
        self.marks: Counter[tuple[str, str]] = Counter()
        self.width: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        words = found.get("class", "").split()
        if tag == "div" and "chart" in words:
            self.chart = found["id"]
        elif tag == "svg" and "marks" in words:
            self.width[self.chart] = int(found["width"])
        elif tag == "g":
            self.kinds.append(words[0].removeprefix("mark-") if "role-mark" in words else "")
        elif tag in self.SHAPES and self.kinds and self.kinds[-1]:
            self.marks[self.chart, self.kinds[-1]] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "g":
            self.kinds.pop()


def browser() -> str:
    found: Iterator[str | None] = map(shutil.which, BROWSERS)
    program = next(filter(None, found), None)
    if program is None:
        message = "Chromium is not installed; `./run test` installs it where it can."
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(message)
        pytest.skip(message)
    return program


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1400, False)], ids=["narrow", "wide"])
def test_every_chart_is_drawn_without_errors(
    demo: Demo, width: int, dark: bool, tmp_path: Path
) -> None:
    options = [
        *("--no-sandbox", "--disable-gpu", "--dump-dom", "--enable-logging=stderr"),
        f"--user-data-dir={tmp_path}",
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--virtual-time-budget=10000",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing is loaded from elsewhere
    ]
    done = subprocess.run(
        [browser(), *options, demo.report.as_uri()],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert [line for line in done.stderr.splitlines() if ":CONSOLE:" in line] == []
    page = Drawn()
    page.feed(done.stdout)
    found = demo.findings
    zooms = Counter(row["zoom"] for row in found["zooms"])
    wanted = {
        ("zoom-0", "rule"): zooms["whole match"],
        ("zoom-1", "rule"): zooms["12 seconds"],
        ("zoom-2", "rule"): zooms["1 second"],
        ("sessions", "rect"): len(found["sessions"]),
        ("sharing", "rect"): len(found["slices"]) + len(found["instances"]),
        ("sharing", "rule"): len(found["slices"]),
        ("revisions", "symbol"): len(found["revisions"]),
        ("lateness", "rect"): len(found["lateness"]),
        ("throughput", "rect"): 2,
        ("state", "rect"): 2,
    }
    assert {place: page.marks[place] for place in wanted} == wanted
    assert len(page.width) == 9
    assert all(width / 3 < drawn <= width for drawn in page.width.values())
