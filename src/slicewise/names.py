"""Names of columns as they are given, and names made from other names."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from slicewise.errors import ColumnError, ColumnTypeError

# What Spark and pandas show of a plain column; other names of it are put in backticks or not there.
_PLAIN = re.compile(r"Column<'(?:(\w+)|`((?:[^`]|``)+)`)'>|col\('(.*)'\)")


def column_name(what: str, given: Any) -> Any:
    """The name of a column that is given as itself or as a plain column of polars, Spark or pandas.

    Other expressions are refused. `what` is the argument.
    """
    if isinstance(given, str):
        return given
    library, kind = type(given).__module__.partition(".")[0], type(given).__name__
    if library == "polars" and kind == "Expr":
        import polars as pl

        names = given.meta.root_names()
        if len(names) == 1 and given.meta.eq(pl.col(names[0])):
            return names[0]
    elif (library, kind) in (("pyspark", "Column"), ("pandas", "Expression")):
        if found := _PLAIN.fullmatch(str(given)):
            return found[1] or found[3] or found[2].replace("``", "`")
    elif library in ("polars", "pandas") and kind == "Series":
        raise ColumnTypeError(
            f"`{what}` takes names of columns of the data; given: a Series. Write its name, "
            f"{str(given.name)!r}, or add it to the data first."
        )
    else:
        return given
    raise ColumnTypeError(
        f"`{what}` takes names of columns such as 'price'; given: {given}. Add what it says to the "
        "data as a column first (`with_columns` of polars, `withColumn` of Spark, `assign` of "
        "pandas), and name that."
    )


def column_names(what: str, given: Any) -> tuple[Any, ...]:
    """The names of no column, of one or of several, each once; `what` is the argument.

    >>> column_names("by", None), column_names("by", "k"), column_names("by", ["k", "n"])
    ((), ('k',), ('k', 'n'))
    """
    if given is None:
        return ()
    several = list(given) if isinstance(given, list | tuple) else [given]
    names = tuple(column_name(what, one) for one in several)
    for name in names:
        if names.count(name) > 1:
            raise ColumnError(
                f"`{what}` names each column once; {name!r} is in it {names.count(name)} times. "
                "Leave one out."
            )
    return names


def snake_case(name: str) -> str:
    """The name of a class in lower case with underscores.

    >>> snake_case("EveryThirdTrade"), snake_case("_Vwap2")
    ('every_third_trade', 'vwap2')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().lstrip("_")


def missed_name(columns: Collection[str]) -> str:
    """The name of the column that tells which windows missed an event with these columns.

    >>> missed_name(["t", "x"]), missed_name(["t", "missed"])
    ('missed', 'missed_')
    """
    name = "missed"
    while name in columns:
        name += "_"
    return name


def written(
    function: str, columns: Sequence[str], options: Mapping[str, Any], alias: str | None
) -> str:
    """The call that makes an aggregate, as one writes it.

    >>> written("quantile", ["x"], {"q": 0.9}, None)
    "quantile('x', q=0.9)"
    """
    values = [*map(repr, columns), *(f"{name}={value!r}" for name, value in options.items())]
    return f"{function}({', '.join(values)})" + (f".alias({alias!r})" if alias is not None else "")
