"""The built-in aggregates: `sw.agg.sum("x")`, `sw.agg.quantile("x", 0.9)` and so on.

Each takes the names of its columns and makes one output column, named `<column>_<function>`
unless `.alias(name)` says otherwise.

>>> import slicewise as sw
>>> sw.agg.mean("price").output, sw.agg.max("price").alias("top").output
('price_mean', 'top')
"""

import re
from typing import TYPE_CHECKING

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bloom import Bloom
from slicewise.aggregates.distribution import (
    CollectDistinct,
    CountDistinct,
    Median,
    Mode,
    Quantile,
    TopK,
)
from slicewise.aggregates.ends import First, FirstN, Last, LastN
from slicewise.aggregates.extremes import Max, Min, Range
from slicewise.aggregates.lists import Collect, Concat
from slicewise.aggregates.moments import Moments
from slicewise.aggregates.pairs import Corr, Cov
from slicewise.aggregates.picks import M4, Argmax, Argmin, MaxCount, MinCount
from slicewise.aggregates.product import Product
from slicewise.aggregates.sketches import ApproxCountDistinct, ApproxQuantile
from slicewise.aggregates.spread import Skew, Std, Var
from slicewise.aggregates.sums import Count, Geomean, Mean, Sum, WeightedMean
from slicewise.suggestions import missing_name

count = Count
sum = Sum
mean = Mean
weighted_mean = WeightedMean
geomean = Geomean
product = Product
min = Min
max = Max
range = Range
min_count = MinCount
max_count = MaxCount
argmin = Argmin
argmax = Argmax
first = First
last = Last
first_n = FirstN
last_n = LastN
m4 = M4
var = Var
std = Std
skew = Skew
cov = Cov
corr = Corr
median = Median
quantile = Quantile
mode = Mode
count_distinct = CountDistinct
collect_distinct = CollectDistinct
top_k = TopK
collect = Collect
concat = Concat
moments = Moments
approx_count_distinct = ApproxCountDistinct
approx_quantile = ApproxQuantile
bloom = Bloom

# One of each, for whoever must work with all of them: planners, laws, tables in documents. They are
# found by their names above; what they are given beside columns is their `example`.
REGISTRY: tuple[Aggregate, ...] = (
    count(),
    *(
        item(*("x", "y")[: item.arity], **item.example)
        for name, item in list(globals().items())
        if isinstance(item, type) and issubclass(item, Aggregate) and name == item.name
    ),
)

__all__ = list(dict.fromkeys(aggregate.name for aggregate in REGISTRY))


def __dir__() -> list[str]:
    return sorted(__all__)


# Type checkers know what there is, and would take any name for one if they saw this.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        hint = ""
        if percent := re.fullmatch(r"p(\d{1,2})(?:[._]?(\d+))?", name):
            q = f"0.{percent[1]:0>2}{percent[2] or ''}"
            hint = f" Did you mean `sw.agg.quantile(column, {q.rstrip('0')})`?"
        raise missing_name("sw.agg", name, __all__, hint)
