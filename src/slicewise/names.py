"""Names made from other names."""

import re
from collections.abc import Collection


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
