"""Quantiles of the density of largest entropy with given moments.

On [-1, 1] that density is `exp(sum of t[j] * T[j])` with Chebyshev polynomials `T`, and the `t`
are the minimum of a convex function, found by Newton's method with a line search (Gan et al.,
doi:10.14778/3236187.3236212, Section 4.2). Moments that no such density has, of a few distinct
values say, make it diverge; then fewer of them are used, none at last: the uniform density.
"""

import math
from functools import cache
from math import comb
from typing import Any

import numpy as np

from slicewise.codegen.kernel import kernel

CELLS = 256  # of the grid on [-1, 1] over which densities are summed
STEPS = 60
CLOSE = 1e-8
# Ratio of the greatest value to the least from which logarithms spread the values more evenly.
WIDE = 10.0


@cache
def tables(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Binomial and Chebyshev coefficients up to degree `k`, and the polynomials on the grid."""
    binomials = np.array([[float(comb(j, i)) for i in range(k + 1)] for j in range(k + 1)])
    coefficients = np.zeros((k + 1, k + 1))
    coefficients[0, 0] = 1.0
    if k:
        coefficients[1, 1] = 1.0
    for j in range(2, k + 1):
        coefficients[j, 1:] = 2.0 * coefficients[j - 1, :-1]
        coefficients[j] -= coefficients[j - 2]
    y = (np.arange(CELLS) + 0.5) * (2.0 / CELLS) - 1.0
    polynomials = np.cos(np.arange(k + 1)[:, None] * np.arccos(y)[None, :])
    return binomials, coefficients, polynomials


@kernel
def estimate_quantiles(
    S: Any, k: int, q: float, binomials: Any, coefficients: Any, T: Any, out: Any
) -> None:
    """Fill `out` with estimates for states: count, min, max, `k` powers, `k` powers of logs."""
    moments = np.empty(k + 1)
    t = np.empty(k + 1)
    density = np.empty(T.shape[1])
    for i in range(out.shape[0]):
        count, low, high = S[0][i], S[1][i], S[2][i]
        if count == 0.0 or not math.isfinite(S[3][i]):
            continue
        if low == high:
            out[i] = low
            continue
        logs = low > 0.0 and high / low > WIDE
        first = 3 + k if logs else 3
        a, b = (math.log(low), math.log(high)) if logs else (low, high)
        centre, half = a / 2.0 + b / 2.0, b / 2.0 - a / 2.0
        usable = usable_moments(k, centre / half)
        moments[0] = 1.0
        for j in range(1, k + 1):
            moments[j] = S[first + j - 1][i] / count
            if not math.isfinite(moments[j]) and usable >= j:
                usable = j - 1
        rescale(moments, usable, centre, half, binomials, coefficients)
        while usable > 0 and not fit(moments, usable + 1, T, t, density):
            usable -= 2 if usable > 2 else 1
        if usable == 0:
            density[:] = 1.0
        x = centre + half * quantile_of(density, q)
        x = math.exp(x) if logs else x
        out[i] = min(max(x, low), high)


@kernel
def usable_moments(k: int, offset: float) -> int:
    """How many moments survive the rounding of moving the centre to 0 (Gan et al., Section 4.3)."""
    return min(k, int(13.06 / (0.78 + math.log10(abs(offset) + 1.0))))


@kernel
def rescale(
    moments: Any, usable: int, centre: float, half: float, binomials: Any, coefficients: Any
) -> None:
    """Turn means of powers into means of Chebyshev polynomials of `(x - centre) / half`."""
    shifted = np.empty(usable + 1)
    for j in range(usable + 1):
        total, power = 0.0, 1.0
        for i in range(j, -1, -1):
            total += binomials[j, i] * moments[i] * power
            power *= -centre
        shifted[j] = total / half**j
    for j in range(usable + 1):
        total = 0.0
        for i in range(j + 1):
            total += coefficients[j, i] * shifted[i]
        moments[j] = total


@kernel
def fit(moments: Any, size: int, T: Any, t: Any, density: Any) -> bool:
    """Find the `t` of the density with the first `size` moments; false if there is none."""
    cells = T.shape[1]
    gradient, step, trial = np.empty(size), np.empty(size), np.empty(size)
    hessian = np.empty((size, size))
    t[:] = 0.0
    t[0] = math.log(0.5)
    value = potential(moments, size, T, t, density)
    for _ in range(STEPS):
        worst = 0.0
        for a in range(size):
            total = 0.0
            for c in range(cells):
                total += density[c] * T[a, c]
            gradient[a] = total - moments[a]
            worst = max(worst, abs(gradient[a]))
        if not math.isfinite(worst):
            return False
        if worst < CLOSE:
            return True
        for a in range(size):
            for b in range(a + 1):
                total = 0.0
                for c in range(cells):
                    total += density[c] * T[a, c] * T[b, c]
                hessian[a, b] = total
        if not solve(hessian, gradient, step):
            return False
        slope = 0.0
        for a in range(size):
            slope += gradient[a] * step[a]
        length, better = 1.0, False
        while length > 1e-6 and not better:
            for a in range(size):
                trial[a] = t[a] - length * step[a]
            found = potential(moments, size, T, trial, density)
            better = found <= value - 1e-4 * length * slope
            length /= 2.0
        if not better:
            return worst < 1e-5
        for a in range(size):
            t[a] = trial[a]
        value = found
    return False


@kernel
def potential(moments: Any, size: int, T: Any, t: Any, density: Any) -> float:
    """The convex function to minimise; fills `density` with the mass of each cell."""
    total = 0.0
    width = 2.0 / T.shape[1]
    for c in range(T.shape[1]):
        exponent = 0.0
        for a in range(size):
            exponent += t[a] * T[a, c]
        density[c] = math.exp(exponent) * width if exponent < 500.0 else np.inf
        total += density[c]
    for a in range(size):
        total -= t[a] * moments[a]
    return total


@kernel
def solve(matrix: Any, right: Any, solution: Any) -> bool:
    """Solve for a symmetric matrix, given below its diagonal, by Cholesky; false if it is singular.

    By hand, because Numba's own needs SciPy.
    """
    size = right.shape[0]
    for a in range(size):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= matrix[a, c] * matrix[b, c]
            if a == b:
                if not total > 1e-14:
                    return False
                matrix[a, a] = math.sqrt(total)
            else:
                matrix[a, b] = total / matrix[b, b]
    for a in range(size):
        total = right[a]
        for c in range(a):
            total -= matrix[a, c] * solution[c]
        solution[a] = total / matrix[a, a]
    for a in range(size - 1, -1, -1):
        total = solution[a]
        for c in range(a + 1, size):
            total -= matrix[c, a] * solution[c]
        solution[a] = total / matrix[a, a]
    return True


@kernel
def quantile_of(density: Any, q: float) -> float:
    """Where on [-1, 1] the part `q` of the mass lies below."""
    cells = density.shape[0]
    total = 0.0
    for c in range(cells):
        total += density[c]
    wanted, below = q * total, 0.0
    for c in range(cells):
        if below + density[c] >= wanted and density[c] > 0.0:
            place: float = -1.0 + (c + (wanted - below) / density[c]) * 2.0 / cells
            return place
        below += density[c]
    return 1.0
