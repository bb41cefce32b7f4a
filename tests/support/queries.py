"""Windows over frames of Spark."""

from __future__ import annotations

import slicewise as sw
from slicewise.testing.strategies import Following, Overlapping

FREE = [
    sw.sliding(10, 3),
    sw.tumbling(7, origin=2),
    sw.cumulate(12, every=5),
    sw.fixed(3, 20),
    sw.sliding(2, 5, name="gaps"),
]


ROWS = [
    sw.session(4),
    sw.session(3, max_length=9),
    sw.tumbling(sw.rows(3)),
    sw.sliding(sw.rows(4), every=sw.rows(3)),
    sw.sliding(6, sw.rows(2)),
    sw.sliding(sw.rows(4), 5),
    sw.punctuated("flag"),
    sw.threshold("flag", min_rows=2),
    sw.tumbling(sw.units(5, on="km")),
    sw.sliding(sw.units(4, on="km"), every=sw.units(3, on="km")),
    Overlapping(3, 2),
    Following(),
]
