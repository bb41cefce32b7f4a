"""Boundary aggregation: one sweep over items and the windows `[left, right)` of them.

A boundary lies inside the window. Behind it each item has a suffix, the aggregate from itself up to
the boundary; ahead of it there is one running aggregate. A window is one of each, so it costs a
combine, and each item costs two more: one when its suffix is made, one when it is added ahead.
When a window begins past the boundary, the boundary moves to the window's end and all suffixes
behind it are made. Nothing is ever subtracted, and the order of items is kept.

Everything that merges without an inverse goes by this: `sweep` takes any windows (the slice store,
and Spark through it). Where windows are regular one of the others does the same at least twice as
fast for some states, and takes its place (nanoseconds per window, one processor, maxima of floats
and then variances, against `sweep` with 2.1 to 4.0 and 4.9 to 7.9):

- `sweep_rows`, a window for each item, ending with it (`rolling`): 1.8 to 2.6 and 4.2 to 6.5
- `sweep_chunks`, windows of one length (`slide`): 0.9 to 1.9 and 2.6 to 5.6
- `sweep_round`, many keys side by side that have the same windows (`rolling` in rounds): a
  maximum and a variance over 64 keys take 14 a row from table to table, and 37 key by key

`rise` and `fall` in `pba` are `sweep_chunks` for two threads.

Source:  doi:10.1145/3447548.3467360 (Zhang, Akbarinia, Toumani: Efficient incremental computation
         of aggregations over sliding windows), Section 4
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, load, prepend, store

# Items are the events of the columns `X`, or the states `S` when those are given; the other one is
# `None`, and Numba drops the branches that have nothing to work on.


@kernel
def item(X: Any, valid: Any, S: Any, i: int) -> Any:
    """The state of item `i`: a state of `S`, or that of an event; a null one leaves no trace."""
    if S is not None:
        return load(S, i)
    if X is None:
        return identity()
    if valid is None:
        return lift(X, i)
    if valid[i]:
        return lift(X, i)
    return identity()


@kernel
def meet(suffixes: Any, first: int, out: Any, place: int, count: int) -> None:
    """Put the suffixes from `first` on before the `count` prefixes from `place` on.

    Neighbours go with neighbours, so the compiler does several at once where `combine` has no
    branch.
    """
    for i in range(count):
        store(out, place + i, combine(load(suffixes, first + i), load(out, place + i)))


@kernel
def sweep(S: Any, slot: Any, left: Any, right: Any, spare: Any, out: Any) -> int:
    """Any windows `[left, right)`; item `i` is the state in `S` at `slot[i]`.

    Windows share their work while neither bound falls; where one does, another row of windows
    begins. `spare` has room for the longest window. Returns how many combines it took.
    """
    combines = 0
    origin, boundary, end = 0, 0, 0
    ahead = identity()
    for q in range(left.shape[0]):
        low, high = left[q], right[q]
        if low >= boundary or low < origin or high < end:
            origin, boundary, end = low, high, high
            state = load(S, slot[high - 1])
            store(spare, high - 1 - low, state)
            for i in range(high - 2, low - 1, -1):
                state = prepend(load(S, slot[i]), state)
                store(spare, i - low, state)
            combines += high - 1 - low
            store(out, q, state)
            continue
        if high > end:
            combines += high - end
            if end == boundary:
                ahead = load(S, slot[end])
                end += 1
                combines -= 1
            while end < high:
                ahead = combine(ahead, load(S, slot[end]))
                end += 1
        if end == boundary:
            store(out, q, load(spare, low - origin))
        else:
            store(out, q, combine(load(spare, low - origin), ahead))
            combines += 1
    return combines


@kernel
def sweep_rows(
    X: Any, valid: Any, firsts: Any, ends: Any, begin: int, memory: Any, states: Any
) -> None:
    """The windows of the events from `begin` on: from `firsts`, which never fall, to each itself.

    With `ends` they go on to the end of the events of the same time, all of which come in one call.
    `memory` is what goes from call to call: a cursor, with the boundary and the event whose suffix
    is the first, the suffixes, and the running aggregate.
    """
    cursor, suffixes, kept = memory
    boundary, base = cursor[0], cursor[1]
    newer = identity() if begin == 0 else load(kept, 0)
    back, suffix = base, identity()  # all suffixes of this boundary are made
    i, stop = 0, len(firsts)
    while i < stop:
        first = firsts[i]
        if first > boundary:
            boundary, base = begin + i, first
            back, newer, suffix = boundary, identity(), identity()
        # Windows that begin before the boundary, then windows that begin with it.
        middle = not_below(boundary, firsts, i, stop)
        end = not_below(boundary + 1, firsts, middle, stop)
        # Suffixes are made together with the first states after them: steps of neither wait for
        # those of the other.
        k = i
        while k < end and back > base:
            back -= 1
            suffix = prepend(item(X, valid, None, back), suffix)
            store(suffixes, back - base, suffix)
            newer = combine(newer, item(X, valid, None, begin + k))
            store(states, k, newer)
            k += 1
        while back > base:
            back -= 1
            suffix = prepend(item(X, valid, None, back), suffix)
            store(suffixes, back - base, suffix)
        for j in range(k, end):
            newer = combine(newer, item(X, valid, None, begin + j))
            store(states, j, newer)
        if len(ends) > 0:
            for k in range(end - 2, i - 1, -1):
                if ends[k] > begin + k + 1:
                    store(states, k, load(states, k + 1))
        count = middle - i
        if steady(firsts[i:middle]):
            meet(suffixes, firsts[i] - base, states, middle - count, count)
        else:
            for k in range(i, middle):
                store(states, k, combine(load(suffixes, firsts[k] - base), load(states, k)))
        i = end
    cursor[0], cursor[1] = boundary, base
    store(kept, 0, newer)


@kernel
def not_below(value: int, firsts: Any, begin: int, stop: int) -> int:
    """The first place from `begin` on where `firsts`, which never fall, reach `value`; or `stop`.

    In steps that double, because it may be near or far.
    """
    low, step = begin, 1
    while low + step <= stop and firsts[low + step - 1] < value:
        low += step
        step *= 2
    high = min(low + step - 1, stop)
    while low < high:
        middle = (low + high) // 2
        if firsts[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def steady(firsts: Any) -> bool:
    """Return `True` if each window begins one row after the one before it."""
    odd = 0
    for k in range(1, len(firsts)):
        odd |= firsts[k] - firsts[k - 1] - 1
    return odd == 0


@kernel
def sweep_chunks(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, lcs: Any, out: Any
) -> None:
    """Windows of `length` items that end at items `first` to `stop - 1`, in `out` from 0 on.

    The boundaries are the multiples of `length`, so a window touches two chunks at most. The
    suffixes of a chunk are made in one loop with its prefixes, so that steps of neither wait for
    those of the other. `length` is at least 2, and `first` is 0 or where the last call stopped, a
    multiple of it. `lcs` keeps the suffixes of two chunks: those before, and those at hand.
    """
    for start in range(first, stop, length):
        here, place, last = start // length % 2 * length, start - first, start + length - 1
        before = length - here
        csa = item(X, valid, S, start)
        store(out, place, after(start, lcs, before + 1, csa))
        if last >= stop:  # nobody needs the suffixes of the last chunk
            for i in range(1, stop - start):
                csa = combine(csa, item(X, valid, S, start + i))
                store(out, place + i, after(start, lcs, before + 1 + i, csa))
            return
        suffix = item(X, valid, S, last)
        store(lcs, here + length - 1, suffix)
        for i in range(1, length - 1):
            csa = combine(csa, item(X, valid, S, start + i))
            store(out, place + i, after(start, lcs, before + 1 + i, csa))
            suffix = prepend(item(X, valid, S, last - i), suffix)
            store(lcs, here + length - 1 - i, suffix)
        # The window of a chunk's last item is the chunk itself.
        store(out, place + length - 1, combine(csa, item(X, valid, S, last)))


@kernel
def after(start: int, lcs: Any, at: int, state: Any) -> Any:
    """A prefix behind the suffix that its window begins with; before the first chunk is none."""
    if start == 0:
        return state
    return combine(load(lcs, at), state)


@kernel
def grow(X: Any, valid: Any, S: Any, end: int, out: Any) -> None:
    """The first chunk: nothing lies before it."""
    csa = item(X, valid, S, 0)
    store(out, 0, csa)
    for i in range(1, end):
        csa = combine(csa, item(X, valid, S, i))
        store(out, i, csa)


@kernel
def sweep_round(
    X: Any, valid: Any, at: int, count: int, keys: int, turn: Any, memory: Any, states: Any
) -> None:
    """The windows of a round of events, one of each of `count` keys from the place `at` on.

    `turn` is the round, the first one of its windows, their boundary and the round whose suffixes
    are the first. States are in `kept`, the running aggregates of `memory`, when the windows begin
    with the boundary, otherwise in `states`.
    """
    r, first, boundary, base = turn
    suffixes, kept = memory
    if r == boundary:
        make_suffixes(X, valid, at, count, keys, boundary - base, suffixes)
        begin_keys(X, valid, at, count, kept)
    else:
        extend_keys(X, valid, at, count, kept)
    if first < boundary:
        put_before(suffixes, (first - base) * count, kept, states, count)


# One loop each, over neighbours and without a branch: the compiler then does several keys at once.


@kernel
def begin_keys(X: Any, valid: Any, at: int, count: int, kept: Any) -> None:
    """Begin anew with the events from `at` on."""
    for k in range(count):
        store(kept, k, combine(identity(), item(X, valid, None, at + k)))


@kernel
def extend_keys(X: Any, valid: Any, at: int, count: int, kept: Any) -> None:
    """Put the events from `at` on behind what is kept."""
    for k in range(count):
        store(kept, k, combine(load(kept, k), item(X, valid, None, at + k)))


@kernel
def put_before(suffixes: Any, first: int, kept: Any, states: Any, count: int) -> None:
    """Put the suffixes from `first` on before what is kept."""
    for k in range(count):
        store(states, k, combine(load(suffixes, first + k), load(kept, k)))


@kernel
def make_suffixes(
    X: Any, valid: Any, at: int, count: int, keys: int, rounds: int, suffixes: Any
) -> None:
    """The aggregates from each of the last `rounds` rounds to the one before the place `at`."""
    for j in range(rounds - 1, -1, -1):
        row, here = at - (rounds - j) * keys, j * count
        if j == rounds - 1:
            for k in range(count):
                own = item(X, valid, None, row + k)
                store(suffixes, here + k, prepend(own, identity()))
        else:
            for k in range(count):
                own = item(X, valid, None, row + k)
                store(suffixes, here + k, prepend(own, load(suffixes, here + count + k)))
