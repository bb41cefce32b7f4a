"""What somebody may have meant by a name that there is not: an attribute, an argument, a column.

>>> meant("avg", ["max", "mean"]), meant("Price", ["price"]), meant("tmie", ["by", "time"])
(" Did you mean 'mean'?", " Did you mean 'price'?", " Did you mean 'time'?")
>>> meant("xyzzy", ["by", "time"])
''
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from slicewise.errors import ArgumentError, MissingNameError

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

# What other tools call them, in lower case and without underscores.
CALLED = {
    # aggregates
    "mean": "avg average arithmeticmean",
    "geomean": "geometricmean gmean",
    "std": "stddev stdev stddevsamp stddevpop sd standarddeviation",
    "var": "variance varsamp varpop",
    "skew": "skewness",
    "count_distinct": "nunique countunique uniquecount ndistinct distinct distinctcount",
    "collect_distinct": "unique collectset",
    "collect": "list arrayagg collectlist implode tolist array",
    "quantile": "percentile percentilecont quantilecont pct",
    "approx_quantile": "percentileapprox approxpercentile tdigest kll",
    "approx_count_distinct": "hll hyperloglog approxnunique approxdistinct",
    "count": "len size nrows rowcount",
    "product": "prod",
    "range": "spread ptp",
    "argmax": "maxby idxmax",
    "argmin": "minby idxmin",
    "weighted_mean": "vwap wavg weightedaverage",
    "concat": "stringagg listagg groupconcat join",
    "top_k": "top topn nlargest largest",
    "first_n": "head",
    "last_n": "tail",
    "last": "newest latest",
    "first": "oldest earliest",
    "cov": "covariance covarsamp covarpop",
    "corr": "correlation pearson",
    "sum": "total",
    "max": "maximum",
    "min": "minimum",
    # windows and verbs
    "sliding": "hopping hop slidingwindow",
    "tumbling": "tumble tumblingwindow countwindow rowwindow",
    "session": "sessionwindow sessions sessionize",
    "cumulate": "expanding accumulate cumulating cumulative",
    "fixed": "globalwindow",
    "windowed": "window groupbydynamic resample",
    "explain": "plan describe",
    "agg": "aggs aggregates functions",
    "Aggregate": "udaf customaggregate userdefinedaggregate",
    "UserWindow": "customwindow userdefinedwindow",
    # arguments
    "by": "groupby group key keys partitionby partition keyby",
    "time": "on ts timestamp timecol timecolumn eventtime datetime index indexcolumn",
    "windows": "window",
    "aggs": "agg aggregate aggregates aggregation aggregations func functions",
    "over": "window windows span spans period periods frame frames",
    "order": "orderby sortby sort",
    "lateness": "allowedlateness grace graceperiod",
    "watermark": "delay withwatermark delaythreshold",
    "emit": "emitmode outputmode trigger output mode",
    "unit": "timeunit units resolution",
    "length": "size duration width period window windowsize windowduration",
    "every": "step slide hop stride interval freq frequency slideduration",
    "origin": "offset align starttime anchor",
    "start": "begin since",
    "gap": "timeout inactivity pause gapduration",
    "max_length": "maxduration",
    "when": "predicate condition where",
    "name": "label alias",
    "data": "df frame table dataframe events",
    "values": "data",
    "q": "percentile quantile p fraction",
    "aggregate": "agg aggs func function",
    "algorithm": "method algo merger",
    "column": "col field name x value",
}
SYNONYMS: dict[str, list[str]] = {}
for _name, _words in CALLED.items():
    for _word in _words.split():
        SYNONYMS.setdefault(_word, []).append(_name)


def meant(given: object, known: Iterable[Any]) -> str:
    """A question that names what of the `known` was meant, after a space; empty if nothing is near.

    Case and underscores do not matter, nor that other tools have another word for it.
    """
    found = nearest(str(given), [str(name) for name in known])
    return f" Did you mean {found!r}?" if found else ""


def nearest(given: str, known: list[str]) -> str | None:
    """The known name that is nearest to a given one, if any is near."""
    by_plain = {_plain(name): name for name in reversed(known)}
    plain = _plain(given)
    if plain in by_plain:
        return by_plain[plain]
    named = [name for name in SYNONYMS.get(plain, ()) if name in known]
    close = named or [by_plain[name] for name in get_close_matches(plain, by_plain, n=1)]
    return close[0] if close else None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def missing_name(owner: str, name: str, known: Iterable[str], hint: str = "") -> AttributeError:
    """The error for a public name that a module has not; `hint` says more than the nearest name."""
    # What Python and its tools look for by themselves has no near names.
    said = "" if name.startswith("__") else hint or meant(name, known)
    return MissingNameError(f"There is no `{owner}.{name}`.{said}")


def check_names(function: str, known: Iterable[str], given: Iterable[str]) -> None:
    """Refuse named arguments that a function has not, all of them at once."""
    known = list(known)
    odd = [name for name in given if name not in known]
    if odd:
        pairs = [(name, nearest(name, known)) for name in odd]
        said = "".join(f" For `{name}`, did you mean `{near}`?" for name, near in pairs if near)
        shown = " or ".join(f"`{name}`" for name in odd)
        raise ArgumentError(
            f"`{function}` has no argument {shown}.{said} It takes: {', '.join(known)}."
        )


def taking_names(function: F) -> F:
    """The function, which names the nearest argument when it is given one that it has not.

    Its signature and types stay what they are.
    """
    return cast("F", _checked(function, inspect.signature(function)))


def taking_names_of(
    verb: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """A decorator for functions that take the named arguments of a verb, all but its data.

    They have the signature of the verb, and refuse names that it has not and ask for those that it
    needs when they are called.
    """
    signature = inspect.signature(verb)
    _, *arguments = signature.parameters.values()
    signature = signature.replace(parameters=arguments)

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        made = _checked(function, signature, needed=True)
        vars(made)["__signature__"] = signature
        return cast("Callable[P, R]", made)

    return decorate


def _checked(
    function: Callable[..., Any], signature: inspect.Signature, *, needed: bool = False
) -> Callable[..., Any]:
    """The function behind a check of the names that it is given."""
    known = dict.fromkeys(name for name in signature.parameters if name != "self")
    name = function.__qualname__.removesuffix(".__init__")

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        check_names(name, known, kwargs)
        if needed:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentError(f"`{name}`: {error}. It takes: {', '.join(known)}.") from None

    def call(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    # By its globals doctest tells whether a function, and the example in it, is of a module.
    scope = cast("Any", function).__globals__
    made = FunctionType(call.__code__, scope, closure=call.__closure__)
    return functools.wraps(function)(made)
