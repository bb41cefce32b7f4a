"""A window that changes with the data: the example of the Cutty paper (CIKM 2016, Section 1).

A trader watches the volume-weighted price of a stock over 10 minutes, every 5 minutes; but while
the price is at most 10, over 5 minutes, every 2 minutes.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import slicewise as sw


class ChangingWindows(sw.UserWindow):
    """10 minutes every 5, but 5 minutes every 2 while the price is at most 10.

    The price at the beginning of an instance decides how long it is. Instances end in the order in
    which they began, so one that is open when a shorter one begins ends no later than that one.
    """

    def __init__(self, minute: int = 60_000_000) -> None:
        self.minute = minute
        self.last_begin: int | None = None
        self.ends: deque[int] = deque()  # of the open instances, oldest first

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        ended = 0
        while self.ends and self.ends[0] <= time:
            self.ends.popleft()
            ended += 1
        length, every = (5, 2) if event["price"] <= 10 else (10, 5)
        if self.last_begin is not None and time < self.last_begin + every * self.minute:
            return 0, ended
        self.last_begin = time
        end = time + length * self.minute
        self.ends = deque(min(open_end, end) for open_end in self.ends)
        self.ends.append(end)
        return 1, ended


def trades() -> list[dict[str, Any]]:
    """A trade a minute; the price falls to 9 from minute 25 on, and is 12 again at minute 34."""
    return [
        {"minute": t, "price": 9.0 if 25 <= t < 34 else 12.0, "volume": 100 + 10 * (t % 3)}
        for t in range(50)
    ]


def main() -> None:
    operator = sw.Operator(
        windows=[ChangingWindows(minute=1)],
        aggs=[sw.agg.weighted_mean("price", "volume").alias("vwap"), sw.agg.count()],
        time="minute",
        ordered=True,
    )
    for trade in trades():
        for result in operator.process([trade]) or []:
            vwap, count = result.values["vwap"], result.values["count"]
            print(f"minutes {result.start:2} to {result.end:2}: {vwap:6.3f} of {count:2} trades")


if __name__ == "__main__":
    main()
