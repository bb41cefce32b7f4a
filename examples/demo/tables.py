"""Results as tables in the terminal."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from examples.demo.match import QUERY, seconds

# Headings of the tables: the aggregate, and how it is written.
HEADINGS = {
    "reports": ("count", "{:,}"),
    "mean m/s": ("mean", "{:.2f}"),
    "top m/s": ("top", "{:.2f}"),
    "least m/s": ("least", "{:.2f}"),
    "spread m/s": ("spread", "{:.2f}"),
    "metres": ("metres", "{:.1f}"),
}
SHOWN = 3


def show_results(results: DataFrame, console: Console) -> int:
    """Print where the speed varied most, for each window; returns the sensor of the first run."""
    liveliest = Window.partitionBy("window").orderBy(
        F.desc("spread"), "sensor", "start", "start_position"
    )
    ranked = results.withColumn("rank", F.row_number().over(liveliest))
    rows = ranked.where(f"rank <= {SHOWN}").orderBy("rank").collect()
    for window in QUERY["windows"]:
        found = [row for row in rows if row.window == window.name]
        timed = window.name != "2000 reports"  # whose bounds are positions
        table = Table(title=f"{window.name}: where the speed varied most")
        for name in ("sensor", "start", "end", *HEADINGS):
            table.add_column(name, justify="right", no_wrap=True)
        for row in found:
            if timed:
                bounds = [clock(row.start), clock(row.end)]
            else:
                bounds = [f"{x:,}" for x in (row.start_position, row.end_position)]
            values = [
                "-" if row[agg] is None else form.format(row[agg])
                for agg, form in HEADINGS.values()
            ]
            table.add_row(str(row.sensor), *bounds, *values)
        console.print(table if found else f"{window.name}: no instance is complete yet.")
    (first,) = {row.sensor for row in rows if row.window == "run" and row["rank"] == 1}
    return int(first)


def clock(moment: datetime) -> str:
    """Minutes and seconds since the kick-off; Spark gives moments on the clock of this machine."""
    minutes, rest = divmod(seconds(moment), 60)
    return f"{minutes:.0f}:{rest:05.2f}"
