"""Which family each definition of a window belongs to: the one place that joins the two."""

from __future__ import annotations

from slicewise.slicing.families import counted, flagged, grid, session, user
from slicewise.slicing.families.family import Family
from slicewise.windows import Window

# All that these modules define, in the order in which a slice group lists their instances.
FAMILIES: tuple[type[Family], ...] = tuple(
    found
    for module in (grid, session, counted, flagged, user)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Family) and found.__module__ == module.__name__
)
FAMILY_OF_KIND = {kind: family for family in FAMILIES for kind in family.kinds}


def family_of(window: Window) -> type[Family]:
    """The family of a window; those of the user's own belong to that of their base.

    >>> import slicewise as sw
    >>> family_of(sw.session(5)).__name__
    'SessionFamily'
    """
    return next(FAMILY_OF_KIND[cls] for cls in type(window).__mro__ if cls in FAMILY_OF_KIND)
