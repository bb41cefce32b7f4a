"""What a window is: one file per type, time arithmetic only."""

from slicewise.windows.base import Window
from slicewise.windows.build import (
    cumulate,
    fixed,
    punctuated,
    session,
    sliding,
    threshold,
    tumbling,
)
from slicewise.windows.cumulate import Cumulate
from slicewise.windows.fixed import Fixed
from slicewise.windows.periodic import Periodic
from slicewise.windows.punctuated import Punctuated
from slicewise.windows.row_periodic import RowPeriodic
from slicewise.windows.rows_every_time import RowsEveryTime
from slicewise.windows.session import Session
from slicewise.windows.threshold import Threshold
from slicewise.windows.time_every_rows import TimeEveryRows
from slicewise.windows.user import UserWindow

__all__ = [
    "Cumulate",
    "Fixed",
    "Periodic",
    "Punctuated",
    "RowPeriodic",
    "RowsEveryTime",
    "Session",
    "Threshold",
    "TimeEveryRows",
    "UserWindow",
    "Window",
    "cumulate",
    "fixed",
    "punctuated",
    "session",
    "sliding",
    "threshold",
    "tumbling",
]
