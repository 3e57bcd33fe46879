"""One step's equations of the compiled embedding: scaling, elimination, solution, residual. See :mod:`embedding_core`.

Inner loops run over rows and write to one array each, which is what lets the compiler use vector instructions.
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.small_system import eliminate
from eunomia.core.compiled import compiled

ANY_ORDER = {"reassoc", "contract", "nsz", "nnan"}
jitted = compiled(error_model="numpy", fastmath=ANY_ORDER, keep=False)  # parts of ``embed``, kept with it
CHUNK = 1024
REGULAR = 7e-8  # ECOS' static regularisation: part of where it stops


@jitted
def factor(jobs, grid, live, soft, over_soft, blocks, matrix):  # type: ignore[no-untyped-def]
    """Eliminate x and the two rows of every job; assemble the J + 1 equations of capacities and y.

    ``soft``: W^2 plus the regularisation, and its reciprocal. ``blocks`` (J + 3, G) is filled: the inverse of the
    2 x 2 blocks (3 lines), then the ease of x by type.
    """
    G, J = grid.shape[1], grid.shape[0] // 4
    for j in range(J + 1):
        for i in range(J + 1):
            matrix[j, i] = 0.0
    for j in range(J):
        matrix[j, j] = soft[(J + 2) * G + j]
    matrix[J, J] = REGULAR
    spare = np.empty((2 * J + 3, CHUNK))
    for lo in range(0, G, CHUNK):
        hi = min(lo + CHUNK, G)
        _blocks(grid, live, soft, over_soft, blocks, spare[2 * J], lo, hi)
        _coupled(jobs, grid, blocks, matrix, spare, lo, hi)


@jitted
def _blocks(grid, live, soft, over_soft, blocks, spare, lo, hi):  # type: ignore[no-untyped-def]
    """Ease of x and inverses of the 2 x 2 blocks of rows lo to hi."""
    G, J, rows = grid.shape[1], grid.shape[0] // 4, hi - lo
    b00, b01, b11, one = blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi], spare[:rows]
    time_soft, fair_soft = soft[J * G + lo : J * G + hi], soft[(J + 1) * G + lo : (J + 1) * G + hi]
    for g in range(rows):
        b00[g] = time_soft[g]
    for g in range(rows):
        b01[g] = 0.0
    for g in range(rows):
        b11[g] = fair_soft[g]
    for j in range(J):
        e, w, a = blocks[3 + j, lo:hi], over_soft[j * G + lo : j * G + hi], live[j * G + lo : j * G + hi]
        sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        for g in range(rows):
            e[g] = a[g] / (sign[g] * sign[g] * w[g] + REGULAR)
        for g in range(rows):
            b00[g] += e[g] * time[g] * time[g]
        for g in range(rows):
            b01[g] += e[g] * time[g] * fair[g]
        for g in range(rows):
            b11[g] += e[g] * fair[g] * fair[g]
    # the determinant, written so that nothing cancels
    for g in range(rows):
        one[g] = time_soft[g] * b11[g] + fair_soft[g] * (b00[g] - time_soft[g])
    for j in range(J):
        e, time, fair = blocks[3 + j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        for i in range(j):
            e_i, time_i, fair_i = blocks[3 + i, lo:hi], grid[J + i, lo:hi], grid[2 * J + i, lo:hi]
            for g in range(rows):
                both = time[g] * fair_i[g] - time_i[g] * fair[g]
                one[g] += e[g] * e_i[g] * both * both
    for g in range(rows):
        one[g] = 1.0 / one[g]
    for g in range(rows):
        b01[g] *= -one[g]
    for g in range(rows):
        low = b00[g]
        b00[g] = one[g] * b11[g]
        b11[g] = one[g] * low


@jitted
def _coupled(jobs, grid, blocks, matrix, spare, lo, hi):  # type: ignore[no-untyped-def]
    """What rows lo to hi add to the J + 1 equations."""
    J, rows = grid.shape[0] // 4, hi - lo
    n, edge = jobs[0, lo:hi], jobs[1, lo:hi]
    b00, b01, b11 = blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi]
    qt, qf = spare[2 * J, :rows], spare[2 * J + 1, :rows]
    for j in range(J):
        bt, bf, e = spare[j, :rows], spare[J + j, :rows], blocks[3 + j, lo:hi]
        time, fair, load = grid[J + j, lo:hi], grid[2 * J + j, lo:hi], grid[3 * J + j, lo:hi]
        for g in range(rows):
            bt[g] = e[g] * time[g] * load[g]
        for g in range(rows):
            bf[g] = e[g] * fair[g] * load[g]
        for g in range(rows):
            qt[g] = n[g] * (b00[g] * bt[g] + b01[g] * bf[g])
        for g in range(rows):
            qf[g] = n[g] * (b01[g] * bt[g] + b11[g] * bf[g])
        own, with_y = 0.0, 0.0
        for g in range(rows):
            own += n[g] * load[g] * load[g] * e[g]
            with_y += edge[g] * qf[g]
        matrix[j, j] += own
        matrix[j, J] += with_y
        matrix[J, j] -= with_y
        for i in range(j + 1):
            bt_i, bf_i, both = spare[i, :rows], spare[J + i, :rows], 0.0
            for g in range(rows):
                both += bt_i[g] * qt[g] + bf_i[g] * qf[g]
            matrix[j, i] -= both
            if i < j:
                matrix[i, j] -= both
    own = 0.0
    for g in range(rows):
        own += n[g] * edge[g] * edge[g] * b11[g]
    matrix[J, J] += own


@jitted
def once(jobs, grid, over_soft, blocks, matrix, given, point):  # type: ignore[no-untyped-def]
    """The point with G'z + REGULAR x = rx, G x - soft z = rz, where ``given`` is laid out as a point."""
    G, J = grid.shape[1], grid.shape[0] // 4
    right = right_of(given, G, J)
    for lo in range(0, G, CHUNK):
        _forward(jobs, grid, over_soft, blocks, given, point, right, lo, min(lo + CHUNK, G))
    answer = shared(matrix, right, point)
    for lo in range(0, G, CHUNK):
        _backward(jobs, grid, over_soft, blocks, given, point, answer, lo, min(lo + CHUNK, G))


@jitted
def right_of(given, G, J):  # type: ignore[no-untyped-def]
    """Right side of the J + 1 equations before any row is eliminated."""
    right = np.empty(J + 1)
    for j in range(J):
        right[j] = -given[2 * (J + 1) * G + 1 + j]
    right[J] = given[J * G]
    return right


@jitted
def shared(matrix, right, point):  # type: ignore[no-untyped-def]
    """Solve the J + 1 equations; prices of capacity and y, also put into their places in the point."""
    J = len(right) - 1
    answer = eliminate(matrix, right)
    last = len(point) - J
    for j in range(J):
        point[last + j] = answer[j]
    point[(last - 1) // (2 * (J + 1)) * J] = answer[J]
    return answer


@jitted
def _forward(jobs, grid, over_soft, blocks, given, point, right, lo, hi):  # type: ignore[no-untyped-def]
    """Eliminate rows lo to hi: in the point stand x without its rows' multipliers, and those rows' right sides."""
    G, J, rows = grid.shape[1], grid.shape[0] // 4, hi - lo
    top, row = J * G + 1, 2 * J * G + 1  # first sign, first time row
    n, edge = jobs[0, lo:hi], jobs[1, lo:hi]
    i00, i01, i11 = blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi]
    ut, uf = point[row + lo : row + hi], point[row + G + lo : row + G + hi]
    rt, rf = given[row + lo : row + hi], given[row + G + lo : row + G + hi]
    for g in range(rows):
        ut[g] = -rt[g]
    for g in range(rows):
        uf[g] = -rf[g]
    for j in range(J):
        low, high = j * G + lo, j * G + hi
        x, e, w = point[low:high], blocks[3 + j, lo:hi], over_soft[low:high]
        rx, rz = given[low:high], given[top + low : top + high]
        sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        for g in range(rows):
            x[g] = e[g] * (rx[g] - sign[g] * rz[g] * w[g])
        for g in range(rows):
            ut[g] += time[g] * x[g]
        for g in range(rows):
            uf[g] += fair[g] * x[g]
    own = 0.0
    for g in range(rows):
        own += n[g] * edge[g] * (i01[g] * ut[g] + i11[g] * uf[g])
    right[J] -= own
    for j in range(J):
        x, e, load = point[j * G + lo : j * G + hi], blocks[3 + j, lo:hi], grid[3 * J + j, lo:hi]
        time, fair = grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        own = 0.0
        for g in range(rows):
            zt, zf = i00[g] * ut[g] + i01[g] * uf[g], i01[g] * ut[g] + i11[g] * uf[g]
            own += n[g] * load[g] * (x[g] - e[g] * (time[g] * zt + fair[g] * zf))
        right[j] += own


@jitted
def _backward(jobs, grid, over_soft, blocks, given, point, answer, lo, hi):  # type: ignore[no-untyped-def]
    """Put y and the prices into rows lo to hi: their multipliers, then x, then signs."""
    G, J, rows = grid.shape[1], grid.shape[0] // 4, hi - lo
    top, row, y = J * G + 1, 2 * J * G + 1, answer[J]
    edge, i00, i01, i11 = jobs[1, lo:hi], blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi]
    zt, zf = point[row + lo : row + hi], point[row + G + lo : row + G + hi]
    for g in range(rows):
        zf[g] += edge[g] * y
    for j in range(J):
        e, load, price = blocks[3 + j, lo:hi], grid[3 * J + j, lo:hi], answer[j]
        time, fair = grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        for g in range(rows):
            zt[g] -= e[g] * time[g] * load[g] * price
        for g in range(rows):
            zf[g] -= e[g] * fair[g] * load[g] * price
    for g in range(rows):
        ut, uf = zt[g], zf[g]
        zt[g] = i00[g] * ut + i01[g] * uf
        zf[g] = i01[g] * ut + i11[g] * uf
    for j in range(J):
        low, high, price = j * G + lo, j * G + hi, answer[j]
        x, e, w, rz = (
            point[low:high],
            blocks[3 + j, lo:hi],
            over_soft[low:high],
            given[top + low : top + high],
        )
        sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
        load, z = grid[3 * J + j, lo:hi], point[top + low : top + high]
        for g in range(rows):
            x[g] -= e[g] * (time[g] * zt[g] + fair[g] * zf[g] + load[g] * price)
        for g in range(rows):
            z[g] = -(sign[g] * x[g] + rz[g]) * w[g]


@jitted
def left_over(jobs, grid, live, soft, regular, given, point, left):  # type: ignore[no-untyped-def]
    """given - (G'z + regular x, G x - soft z) at a point, into ``left``."""
    G, J = grid.shape[1], grid.shape[0] // 4
    top, row, last = J * G + 1, 2 * J * G + 1, 2 * (J + 1) * G + 1
    y = point[top - 1]
    left[top - 1] = given[top - 1] - regular * y
    for j in range(J):
        left[last + j] = given[last + j] + soft[(J + 2) * G + j] * point[last + j]
    for lo in range(0, G, CHUNK):
        hi = min(lo + CHUNK, G)
        n, edge, rows = jobs[0, lo:hi], jobs[1, lo:hi], hi - lo
        t_lo, f_lo = row + lo, row + G + lo
        zt, rt, et, wt = (
            point[t_lo : t_lo + rows],
            given[t_lo : t_lo + rows],
            left[t_lo : t_lo + rows],
            soft[t_lo - top : t_lo - top + rows],
        )
        zf, rf, ef, wf = (
            point[f_lo : f_lo + rows],
            given[f_lo : f_lo + rows],
            left[f_lo : f_lo + rows],
            soft[f_lo - top : f_lo - top + rows],
        )
        rowed = live[f_lo - top : f_lo - top + rows]
        for g in range(rows):
            et[g] = rt[g] + wt[g] * zt[g]
        for g in range(rows):
            ef[g] = rf[g] + wf[g] * zf[g] - edge[g] * y
        for j in range(J):
            low, high, price = j * G + lo, j * G + hi, point[last + j]
            x, z, a, w = point[low:high], point[top + low : top + high], live[low:high], soft[low:high]
            sign, time, fair, load = (
                grid[j, lo:hi],
                grid[J + j, lo:hi],
                grid[2 * J + j, lo:hi],
                grid[3 * J + j, lo:hi],
            )
            rx, rz, ex, ez = (
                given[low:high],
                given[top + low : top + high],
                left[low:high],
                left[top + low : top + high],
            )
            for g in range(rows):
                ex[g] = rx[g] + sign[g] * z[g] - time[g] * zt[g] - fair[g] * zf[g]
            for g in range(rows):
                ex[g] = a[g] * (ex[g] - load[g] * price - regular * x[g])
            for g in range(rows):
                ez[g] = a[g] * (rz[g] + sign[g] * x[g] + w[g] * z[g])
            for g in range(rows):
                et[g] -= time[g] * x[g]
            for g in range(rows):
                ef[g] -= fair[g] * x[g]
            own = 0.0
            for g in range(rows):
                own += n[g] * load[g] * x[g]
            left[last + j] -= own
        for g in range(rows):
            ef[g] *= rowed[g]
        own = 0.0
        for g in range(rows):
            own += n[g] * edge[g] * zf[g]
        left[top - 1] -= own
