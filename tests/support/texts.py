"""An aggregate that shows the order of its events."""

import slicewise as sw


class Text(sw.Aggregate):
    """Concatenation: any event out of place shows."""

    def identity(self) -> str:
        return ""

    def lift(self, value: str) -> str:
        return value

    def combine(self, older: str, newer: str) -> str:
        return older + newer

    def lower(self, state: str) -> str:
        return state
