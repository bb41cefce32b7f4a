"""The report: one HTML page that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import vl_convert

from examples.demo.charts import all_charts
from examples.demo.findings import Findings
from examples.demo.match import EVERY, LENGTH

HERE = Path(__file__).parent


def write(findings: Findings, path: Path) -> None:
    """Write the page to this path."""
    ours, theirs = (row for row in findings.runs if row["name"] != "slicewise")
    whole = findings.runs[0]
    revised = {row["start"] for row in findings.revisions if row["revision"]}
    late = sum(row["events"] for row in findings.lateness)
    rows = "\n".join(
        f"<tr><th scope=row>{escape(row['name'])}</th><td>{escape(row['value'])}</td></tr>"
        for row in findings.settings
    )
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        events=f"{findings.events:,}",
        took=f"{whole['seconds']:.1f}",
        sensor=findings.sensor,
        reports=f"{sum(row['count'] for row in findings.slices if row['slices'] == 'of time'):,}",
        slices=len(findings.slices),
        instances=len(findings.instances),
        late=f"{late:,}",
        revised=len(revised),
        answers=len({row["start"] for row in findings.revisions}),
        overlap=LENGTH // EVERY,
        length=LENGTH,
        every=EVERY,
        ours=f"{ours['seconds']:.1f}",
        theirs=f"{theirs['seconds']:.1f}",
        ratio=f"{theirs['seconds'] / ours['seconds']:.1f}",
        batches=ours["micro_batches"],
        settings=rows,
        findings=script(asdict(findings)),
        charts=script(all_charts(findings)),
        library=vl_convert.javascript_bundle().replace("</script", "<\\/script"),
    )
    path.write_text(page, encoding="utf-8")


def script(value: Any) -> str:
    """A value as JSON that can stand inside of a script element."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
