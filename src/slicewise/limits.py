"""Sentinels of time, and how far numbers may go: beyond that nothing can be meant.

Times and spans stay below 2**61 in size, so that the sum of a time and two spans fits 64 bits.
"""

from __future__ import annotations

# The least and the greatest number of 64 bits. numpy and pandas say "no time" with the least.
LEAST, GREATEST = -(2**63), 2**63 - 1
# Before the first and after the last time; sums of the two with a span do not overflow.
BEGINNING, INFINITY = -(2**62), 2**62
# More than can be counted: what has this limit has none.
UNLIMITED = 2**62
# Spans, origins and times are below this in size.
REACH = 2**61
# The least and the greatest time of plain numbers, in microseconds of Python's calendar (the years
# 1 to 9999), and in microseconds of which nanoseconds fit 64 bits.
EVER = (-REACH, REACH)
CALENDAR = (-62_135_596_800_000_000, 253_402_300_799_999_999)
NANOSECONDS = (-GREATEST // 1000 + 1, GREATEST // 1000)
# So many instances of one window may hold an event: a day every 10 ms has 8,640,000 of them.
INSTANCES_OF_AN_EVENT = 10_000_000
# So many instances may come out of one call; each takes more than a hundred bytes.
INSTANCES_OF_A_CALL = 2**30
