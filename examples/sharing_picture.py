"""The picture of the README: how the windows of its first program share slices.

Run it to write `sharing.svg`. The slices are those that an operator keeps, and the windows those
that it answers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import slicewise as sw

EVENTS = [(0, 10.0), (20, 12.0), (45, 11.0), (70, 15.0), (200, 9.0), (215, 8.0)]
WINDOWS = [sw.tumbling("1m"), sw.session("30s"), sw.cumulate("2m", every="1m")]
COLOURS = ("#2364aa", "#2e7d4f", "#c2571a")  # readable on white and on black
LEFT, RIGHT, LANE = 150, 20, 26
LENGTH = 250  # seconds that are shown
WIDTH = 760


def second(moment: datetime) -> float:
    """Seconds since the epoch."""
    return moment.replace(tzinfo=UTC).timestamp()


def x(time: float) -> float:
    """The place of a time in the picture."""
    return round(LEFT + time * (WIDTH - LEFT - RIGHT) / LENGTH, 1)


def sliced() -> tuple[list[tuple[float, float, int]], list[sw.Result]]:
    """The first and last second and the number of events of each slice, and the results."""
    aggs = [sw.agg.count(), sw.agg.max("price")]
    op = sw.Operator(windows=WINDOWS, aggs=aggs, time="time")
    rows = [{"time": datetime.fromtimestamp(t, UTC), "price": price} for t, price in EVENTS]
    op.process(rows)
    (group,) = op.parts.slices.groups.values()
    runs = group.runs
    slots = runs.slot[runs.offset[0] : runs.offset[0] + runs.size[0]]
    slices = [(runs.first[s] / 1e6, runs.last[s] / 1e6, int(runs.rows[s])) for s in slots]
    return slices, op.advance(float("inf"))


def bar(begin: float, end: float, y: float, colour: str, text: str) -> str:
    """A bar with a text in it."""
    width = round(x(min(end, LENGTH)) - x(begin) - 2, 1)
    middle = round(x(begin) + width / 2 + 1, 1)
    return (
        f'<rect x="{x(begin) + 1}" y="{y}" width="{width}" height="{LANE - 6}" rx="4" '
        f'fill="{colour}"/><text x="{middle}" y="{y + 14}" fill="#fff" '
        f'text-anchor="middle">{text}</text>'
    )


def picture() -> str:
    """The picture as SVG."""
    slices, results = sliced()
    parts, y = [], 24
    parts.append(f'<text x="8" y="{y + 5}" class="ink">events</text>')
    for time, _ in EVENTS:
        parts.append(f'<circle cx="{x(time)}" cy="{y}" r="4.5" class="ink"/>')
    y += 20
    parts.append(f'<text x="8" y="{y + 15}" class="ink">slices</text>')
    for begin, end, count in slices:
        # A slice is drawn with room for its events, of which the first and last are its ends.
        parts.append(bar(begin - 3, end + 3, y, "#5c6675", str(count)))
    top = y + LANE
    y += LANE + 10
    for window, colour in zip(WINDOWS, COLOURS):
        found = [one for one in results if one.window == window.name]
        parts.append(f'<text x="8" y="{y + 15}" class="ink">{window.name}</text>')
        lanes: list[float] = []
        for one in sorted(found, key=lambda one: (one.start, one.end)):
            begin, end = second(one.start), second(one.end)
            lane = next((n for n, until in enumerate(lanes) if until <= begin), len(lanes))
            lanes[lane:] = [end, *lanes[lane + 1 :]]
            text = f"max {one.values['price_max']:g}"
            parts.append(bar(begin, end, y + lane * LANE, colour, text))
        y += len(lanes) * LANE + 6
    cuts = "".join(
        f'<path d="M{x(begin - 3)} {top - 4}V{y - 6}M{x(end + 3)} {top - 4}V{y - 6}"/>'
        for begin, end, _ in slices
    )
    axis = "".join(
        f'<text x="{x(time)}" y="{y + 14}" text-anchor="middle" class="muted">'
        f"{time // 60}:{time % 60:02}</text>"
        for time in range(0, LENGTH, 60)
    )
    height = y + 24
    said = (
        f"{len(EVENTS)} events are added to {len(slices)} slices; {len(results)} results of "
        f"{len(WINDOWS)} windows are merged from them."
    )
    body = "\n".join(parts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" \
font-family="system-ui, sans-serif" font-size="13">
<title>{said}</title>
<style>
.ink {{ fill: #1d2430 }} .muted {{ fill: #5c6675 }} .cut {{ stroke: #5c6675 }}
@media (prefers-color-scheme: dark) {{
.ink {{ fill: #e8ecf2 }} .muted {{ fill: #a3adbb }} .cut {{ stroke: #a3adbb }}
}}
</style>
<g class="cut" fill="none" stroke-dasharray="2 3">{cuts}</g>
{body}
{axis}
</svg>
"""


if __name__ == "__main__":
    Path("sharing.svg").write_text(picture(), encoding="utf-8")
