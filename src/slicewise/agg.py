"""The built-in aggregates: `sw.agg.sum("x")`, `sw.agg.quantile("x", 0.9)` and so on.

Each takes the names of its columns and makes one output column, named `<column>_<function>`
unless `.alias(name)` says otherwise.

>>> import slicewise as sw
>>> sw.agg.mean("price").output, sw.agg.max("price").alias("top").output
('price_mean', 'top')
"""

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.ends import First, Last
from slicewise.aggregates.extremes import Max, Min
from slicewise.aggregates.lists import Collect, Concat
from slicewise.aggregates.spread import Std, Var
from slicewise.aggregates.sums import Count, Mean, Sum

count = Count
sum = Sum
mean = Mean
min = Min
max = Max
var = Var
std = Std
first = First
last = Last
collect = Collect
concat = Concat

# One of each, for whoever must work with all of them: planners, laws, tables in documents.
REGISTRY: tuple[Aggregate, ...] = (
    count(),
    count("x"),
    sum("x"),
    mean("x"),
    min("x"),
    max("x"),
    var("x"),
    std("x"),
    first("x"),
    last("x"),
    collect("x"),
    concat("x", sep=","),
)
