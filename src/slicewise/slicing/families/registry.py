"""Which family each definition of a window belongs to: the one place that joins the two."""

from __future__ import annotations

from slicewise.slicing.families.counted import CountedFamily
from slicewise.slicing.families.family import Family
from slicewise.slicing.families.flagged import FlaggedFamily
from slicewise.slicing.families.grid import GridFamily
from slicewise.slicing.families.session import SessionFamily
from slicewise.slicing.families.user import UserFamily
from slicewise.windows import Window

# In the order in which a slice group lists their instances.
FAMILIES: tuple[type[Family], ...] = (
    GridFamily,
    SessionFamily,
    CountedFamily,
    FlaggedFamily,
    UserFamily,
)
FAMILY_OF_KIND = {kind: family for family in FAMILIES for kind in family.kinds}


def family_of(window: Window) -> type[Family]:
    """The family of a window; those of the user's own belong to that of their base.

    >>> import slicewise as sw
    >>> family_of(sw.session(5)).__name__
    'SessionFamily'
    """
    return next(FAMILY_OF_KIND[cls] for cls in type(window).__mro__ if cls in FAMILY_OF_KIND)
