"""The charts of the report, drawn with Altair from the rows of the findings.

A chart names its rows, which are in the page once. Colours are variables of the page's style, so
that one drawing serves a light and a dark page.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from examples.demo.findings import SHARING, ZOOMS, Findings

INK, MUTED, GRID = "var(--ink)", "var(--muted)", "var(--grid)"
COLOURS = [f"var(--colour-{number})" for number in range(1, 6)]
# Seconds since the kick-off as minutes and seconds.
CLOCK = "floor(datum.value / 60) + ':' + format(datum.value % 60, '02')"
FINE_CLOCK = "floor(datum.value / 60) + ':' + format(datum.value % 60, '04.1f')"


def all_charts(found: Findings) -> dict[str, dict[str, Any]]:
    """The Vega-Lite specification of each chart, by the id of its place in the page."""
    both = [row for row in found.runs if row["name"] != "slicewise"]
    quickest = max(row["events"] / row["seconds"] for row in both)
    largest = max(row["state_bytes"] / 1024 for row in both)
    drawn = {
        **{f"zoom-{number}": speed(name) for number, name in enumerate(ZOOMS)},
        "sessions": sessions(len({row["sensor"] for row in found.sessions})),
        "sharing": sharing(),
        "revisions": revisions(),
        "lateness": lateness(),
        "throughput": bars("datum.events / datum.seconds", "events a second", quickest),
        "state": bars("datum.state_bytes / 1024", "KiB of state, at most", largest),
    }
    return {name: finish(chart).to_dict() for name, chart in drawn.items()}


def finish(chart: alt.TopLevelMixin) -> Any:
    """The chart with the style of the page, as wide as its place."""
    return (
        chart.properties(width="container", background="transparent", padding=0)
        .properties(autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure(font="system-ui, sans-serif")
        .configure_view(stroke="transparent")
        .configure_axis(
            labelColor=MUTED,
            titleColor=MUTED,
            gridColor=GRID,
            domainColor=GRID,
            tickColor=GRID,
            titleFontWeight="normal",
            labelFontSize=12,
            titleFontSize=12,
        )
        .configure_legend(
            labelColor=MUTED, titleColor=MUTED, labelFontSize=12, orient="top", title=None
        )
    )


def clock(field: str, *, fine: bool = False, **options: Any) -> alt.X:
    """The axis of time."""
    axis = alt.Axis(labelExpr=FINE_CLOCK if fine else CLOCK, grid=False, tickCount=6)
    return alt.X(field, title=None, axis=axis, **options)


def speed(name: str) -> alt.LayerChart:
    """The speed at one level of zoom: from the least to the greatest, and first to last."""
    step = ZOOMS[name][0]
    base = alt.Chart(alt.NamedData("zooms")).transform_filter(alt.datum.zoom == name)
    x = clock("start:Q", fine=step < 50, scale=alt.Scale(nice=False, zero=False))
    tooltip = [
        alt.Tooltip("start:Q", title="seconds", format=".3f"),
        *(alt.Tooltip(f"{value}:Q", format=".2f") for value in ("first", "last", "min", "max")),
        alt.Tooltip("count:Q", title="reports"),
    ]
    y = alt.Y("min:Q", title="m/s", axis=alt.Axis(tickCount=4), scale=alt.Scale(domainMin=0))
    spread = base.mark_rule(color=COLOURS[0], strokeWidth=2, strokeCap="round").encode(
        x=x, y=y, y2="max:Q", tooltip=tooltip
    )
    line = (
        base.transform_window(before="lag(end)", sort=[alt.SortField("start")])
        .transform_calculate(silent="datum.start - datum.before > 1 ? 1 : 0")
        .transform_window(piece="sum(silent)", sort=[alt.SortField("start")])
        .mark_line(color=COLOURS[0], strokeWidth=1)
        .encode(x=x, y="first:Q", detail="piece:N")
    )
    return alt.layer(line, spread).properties(height=190)


def sessions(sensors: int) -> alt.Chart:
    """A bar for each session of each sensor; the faster, the more opaque."""
    opacity = alt.Opacity(
        "mean:Q",
        title="mean m/s",
        scale=alt.Scale(range=[0.3, 1]),
        legend=alt.Legend(symbolFillColor=COLOURS[1], symbolStrokeWidth=0, symbolType="square"),
    )
    return (
        alt.Chart(alt.NamedData("sessions"))
        .mark_bar(color=COLOURS[1], height={"band": 0.7}, cornerRadius=2)
        .encode(
            x=clock("start:Q", scale=alt.Scale(nice=False)),
            x2="end:Q",
            y=alt.Y("sensor:O", title="sensor", axis=alt.Axis(grid=False, ticks=False)),
            opacity=opacity,
            tooltip=[
                alt.Tooltip("sensor:O"),
                alt.Tooltip("start:Q", title="from", format=".2f"),
                alt.Tooltip("end:Q", title="to", format=".2f"),
                alt.Tooltip("count:Q", title="reports", format=","),
                alt.Tooltip("mean:Q", title="mean m/s", format=".2f"),
                alt.Tooltip("top:Q", title="top m/s", format=".2f"),
                alt.Tooltip("metres:Q", format=".1f"),
            ],
        )
        .properties(height=15 * sensors)
    )


# The rows of the timeline from above: slices, then the windows that share them; how many lanes each
# takes.
LANES = {
    "slices of time": 1,
    SHARING[0].name: 4,
    SHARING[1].name: 3,
    SHARING[2].name: 1,
    "slices of events in order": 1,
    SHARING[3].name: 1,
    SHARING[4].name: 1,
}


def sharing() -> alt.LayerChart:
    """The slices of one sensor above the windows that are merged from them."""
    tops, height = {}, 0.0
    for name, lanes in LANES.items():
        tops[name] = height + 1  # below a line with the name
        height += lanes + 1.4
    scale = alt.Scale(domain=[height, 0], nice=False, zero=False)
    y = alt.Y("y:Q", axis=None, scale=scale)
    x = clock("from:Q", scale=alt.Scale(nice=False))
    tops_of = "{" + ", ".join(f"'{name}': {top}" for name, top in tops.items()) + "}"
    bars = [
        alt.Tooltip("start:Q", title="from", format=".2f"),
        alt.Tooltip("end:Q", title="to", format=".2f"),
        alt.Tooltip("count:Q", title="reports", format=","),
    ]
    kinds = [name for name in LANES if not name.startswith("slices")]
    colour = alt.Color("window:N", legend=None, scale=alt.Scale(domain=kinds, range=COLOURS))
    instances = (
        alt.Chart(alt.NamedData("instances"))
        .transform_calculate(y=f"{tops_of}[datum.window] + datum.lane + 0.08")
        .transform_calculate(y2="datum.y + 0.84")
        .transform_calculate(**{"from": "max(datum.start, 0)"})
        .mark_rect(cornerRadius=3, opacity=0.85)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            y2="y2:Q",
            color=colour,
            tooltip=["window:N", *bars, alt.Tooltip("top:Q", title="top m/s", format=".2f")],
        )
    )
    slices = alt.Chart(alt.NamedData("slices")).transform_calculate(**{"from": "datum.start"})
    shares = "datum.slices == 'of time'"
    first, second = tops["slices of time"], tops["slices of events in order"]
    cuts = (
        slices.transform_calculate(y=f"{shares} ? {first} : {second}")
        .transform_calculate(y2=f"{shares} ? {second - 1.4} : {height}")
        .mark_rule(color=INK, opacity=0.28, strokeDash=[2, 3])
        .encode(x=x, y=y, y2="y2:Q")
    )
    pieces = (
        slices.transform_calculate(y=f"({shares} ? {first} : {second}) + 0.08")
        .transform_calculate(y2="datum.y + 0.84")
        .mark_rect(color=INK, stroke="var(--paper)", strokeWidth=2, cornerRadius=3)
        .encode(x=x, x2="end:Q", y=y, y2="y2:Q", tooltip=["slices:N", *bars])
    )
    titles = alt.Data(
        values=[{"name": name, "from": 0, "y": top - 0.15} for name, top in tops.items()]
    )
    names = (
        alt.Chart(titles)
        .mark_text(align="left", baseline="bottom", fontSize=12, color=INK)
        .encode(x=x, y=y, text="name:N")
    )
    return alt.layer(cuts, pieces, instances, names).properties(height=height * 18)


def revisions() -> alt.LayerChart:
    """How near each answer came to the last one for the same five seconds."""
    base = alt.Chart(alt.NamedData("revisions")).transform_calculate(
        share="datum.metres / datum.final",
        answer="datum.revision == 0 ? 'first answer' : 'revised'",
    )
    x = clock("start:Q", scale=alt.Scale(nice=False, padding=12))
    y = alt.Y(
        "share:Q",
        title="share of the last answer",
        axis=alt.Axis(format=".0%", tickCount=5),
        scale=alt.Scale(zero=False),
    )
    way = (
        base.transform_aggregate(least="min(share)", most="max(share)", groupby=["start"])
        .mark_rule(color=MUTED, strokeWidth=1.5)
        .encode(x=x, y=alt.Y("least:Q"), y2="most:Q")
    )
    names = ["first answer", "revised"]
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("answer:N", scale=alt.Scale(domain=names, range=[COLOURS[1], COLOURS[2]])),
        shape=alt.Shape("answer:N", scale=alt.Scale(domain=names, range=["circle", "diamond"])),
        tooltip=[
            alt.Tooltip("start:Q", title="from"),
            alt.Tooltip("revision:Q"),
            alt.Tooltip("metres:Q", format=".1f"),
            alt.Tooltip("final:Q", title="last answer", format=".1f"),
            alt.Tooltip("count:Q", title="reports", format=","),
            alt.Tooltip("seen:Q", title="watermark", format=".2f"),
        ],
    )
    return alt.layer(way, points).properties(height=260)


def lateness() -> alt.Chart:
    """How many events came how late."""
    return (
        alt.Chart(alt.NamedData("lateness"))
        .mark_rect(color=COLOURS[3], stroke="var(--card)", strokeWidth=2)
        .transform_calculate(none="0")
        .encode(
            x=alt.X("from:Q", title="seconds behind the watermark", axis=alt.Axis(tickCount=5)),
            x2="to:Q",
            y=alt.Y("events:Q", title="events", axis=alt.Axis(tickCount=4)),
            y2="none:Q",
            tooltip=["from:Q", "to:Q", alt.Tooltip("events:Q", format=",")],
        )
        .properties(height=260)
    )


def bars(value: str, title: str, most: float) -> alt.LayerChart:
    """Slicewise and `window()` side by side, with their figures."""
    scale = alt.Scale(domain=[0, 1.35 * most], nice=False)  # with room for the figures
    base = (
        alt.Chart(alt.NamedData("runs"))
        .transform_filter("datum.name != 'slicewise'")
        .transform_calculate(value=value)
        .encode(
            y=alt.Y("name:N", title=None, axis=alt.Axis(labelFontSize=13, ticks=False)),
            x=alt.X("value:Q", title=title, axis=alt.Axis(tickCount=3), scale=scale),
        )
    )
    colour = alt.Color("name:N", legend=None, scale=alt.Scale(range=[COLOURS[0], MUTED]))
    drawn = base.mark_bar(height={"band": 0.6}, cornerRadiusEnd=3).encode(color=colour)
    figures = base.mark_text(align="left", dx=6, color=INK, fontSize=13).encode(
        text=alt.Text("value:Q", format=",.0f")
    )
    return alt.layer(drawn, figures).properties(height=110)
