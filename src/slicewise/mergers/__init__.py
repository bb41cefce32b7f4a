"""Mergers: algorithms for final aggregation, from slices to the results of windows.

Each is a file and a class of its own, and `CATALOGUE` lists them by name with their properties, so
that a planner can choose.

>>> CATALOGUE["two_stacks"].cls.__name__, CATALOGUE["two_stacks"].amortised
('TwoStacks', '3')
>>> [name for name, entry in CATALOGUE.items() if entry.suffixes]
['flatfat', 'bint', 'flatfit', 'fiba']
"""

from dataclasses import asdict, dataclass

from slicewise.mergers.base import FlatMerger, Merger, Properties
from slicewise.mergers.bint import BInt
from slicewise.mergers.daba import DABA
from slicewise.mergers.daba_lite import DABALite
from slicewise.mergers.fiba import FiBA
from slicewise.mergers.flatfat import FlatFAT
from slicewise.mergers.flatfit import FlatFIT
from slicewise.mergers.pba import PBA
from slicewise.mergers.reactive_aggregator import ReactiveAggregator
from slicewise.mergers.recalc import Recalc
from slicewise.mergers.sba import SBA
from slicewise.mergers.slick_deque import SlickDeque
from slicewise.mergers.subtract_on_evict import SubtractOnEvict
from slicewise.mergers.two_stacks import TwoStacks
from slicewise.mergers.two_stacks_lite import TwoStacksLite


@dataclass(frozen=True, kw_only=True)
class Entry(Properties):
    """A merger of the catalogue: its name, its class, and its properties as data."""

    name: str
    cls: type[Merger]

    @property
    def compiled(self) -> bool:
        """`True` if the algorithm is made of kernels, which `sw.slide` can compile."""
        return issubclass(self.cls, FlatMerger)


CATALOGUE: dict[str, Entry] = {
    cls.name: Entry(name=cls.name, cls=cls, **asdict(cls.properties))
    for cls in (
        Recalc,
        SubtractOnEvict,
        FlatFAT,
        BInt,
        FlatFIT,
        TwoStacks,
        TwoStacksLite,
        DABA,
        DABALite,
        SlickDeque,
        SBA,
        PBA,
        FiBA,
    )
}

__all__ = [
    "CATALOGUE",
    "DABA",
    "PBA",
    "SBA",
    "BInt",
    "DABALite",
    "Entry",
    "FiBA",
    "FlatFAT",
    "FlatFIT",
    "Merger",
    "Properties",
    "ReactiveAggregator",
    "Recalc",
    "SlickDeque",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
]
