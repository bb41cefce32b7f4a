"""Names made from other names."""

import re


def snake_case(name: str) -> str:
    """The name of a class in lower case with underscores.

    >>> snake_case("EveryThirdTrade"), snake_case("_Vwap2")
    ('every_third_trade', 'vwap2')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().lstrip("_")
