"""One step's equations of the compiled embedding: scaling, elimination, solution, residual. See :mod:`embedding_core`.

Inner loops run over rows and write to one array each, which is what lets the compiler use vector instructions.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eunomia.cluster.compiled import compiled
from eunomia.cluster.solver.small_system import eliminate

jitted = partial(compiled, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "nnan"})
SCALING_PASSES = 3
CHUNK = 256  # rows worked on at a time, so that their lines stay in the nearest cache
REGULAR = 7e-8  # ECOS' static regularisation: part of where it stops


@jitted
def _root(largest):  # type: ignore[no-untyped-def]
    return 1.0 if largest < 1e-6 else np.sqrt(largest)


@jitted
def ruiz(sign, time, fair, load, edge):  # type: ignore[no-untyped-def]
    """Scale rows and columns towards equal largest entries, in place; returns what columns and rows were divided by."""
    J, G = time.shape
    by_x, by_y = np.ones((J, G)), 1.0
    by_row, by_capacity = np.ones((2, G)), np.ones(J)
    here_x, here_row, here_capacity = np.empty((J, G)), np.empty((2, G)), np.empty(J)
    for _ in range(SCALING_PASSES):
        here_row[:] = 0.0
        most_y = 0.0
        for j in range(J):
            most = 0.0
            for g in range(G):
                most = max(most, load[j, g])
                here_row[0, g] = max(here_row[0, g], time[j, g])
                here_row[1, g] = max(here_row[1, g], abs(fair[j, g]))
                here_x[j, g] = _root(max(max(time[j, g], abs(fair[j, g])), max(load[j, g], sign[j, g])))
            here_capacity[j] = _root(most)
        for g in range(G):
            most_y = max(most_y, edge[g])
            here_row[0, g] = _root(here_row[0, g])
            here_row[1, g] = _root(max(here_row[1, g], edge[g]))
        here_y = _root(most_y)
        for j in range(J):
            for g in range(G):
                sign[j, g] /= _root(sign[j, g]) * here_x[j, g]
                time[j, g] /= here_row[0, g] * here_x[j, g]
                fair[j, g] /= here_row[1, g] * here_x[j, g]
                load[j, g] /= here_capacity[j] * here_x[j, g]
                by_x[j, g] *= here_x[j, g]
            by_capacity[j] *= here_capacity[j]
        for g in range(G):
            edge[g] /= here_row[1, g] * here_y
        by_row *= here_row
        by_y *= here_y
    return by_x, by_y, by_row, by_capacity


@jitted
def factor(jobs, grid, live, soft, blocks, matrix):  # type: ignore[no-untyped-def]
    """Eliminate x and the two rows of every job; assemble the J + 1 equations of capacities and y.

    ``soft``: W^2 plus the regularisation. ``blocks`` (5 J + 5, G) is filled: the inverse of the 2 x 2 blocks (3
    lines), then by type: ease of x, blocks to capacities (2), those times the inverse (2); 2 are spare.
    """
    G, J = grid.shape[1], grid.shape[0] // 4
    for j in range(J + 1):
        for i in range(J + 1):
            matrix[j, i] = 0.0
    for j in range(J):
        matrix[j, j] = soft[(J + 2) * G + j]
    matrix[J, J] = REGULAR
    for lo in range(0, G, CHUNK):
        hi = min(lo + CHUNK, G)
        n, edge, rows = jobs[0, lo:hi], jobs[1, lo:hi], hi - lo
        b00, b01, b11 = blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi]
        one = blocks[5 * J + 3, lo:hi]
        time_soft, fair_soft = soft[J * G + lo : J * G + hi], soft[(J + 1) * G + lo : (J + 1) * G + hi]
        for g in range(rows):
            b00[g] = time_soft[g]
        for g in range(rows):
            b01[g] = 0.0
        for g in range(rows):
            b11[g] = fair_soft[g]
        for j in range(J):
            e, w, a = blocks[3 + j, lo:hi], soft[j * G + lo : j * G + hi], live[j * G + lo : j * G + hi]
            sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
            for g in range(rows):
                e[g] = a[g] / (sign[g] * sign[g] / w[g] + REGULAR)
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
        for j in range(J):
            e, bt, bf = blocks[3 + j, lo:hi], blocks[3 + J + j, lo:hi], blocks[3 + 2 * J + j, lo:hi]
            qt, qf = blocks[3 + 3 * J + j, lo:hi], blocks[3 + 4 * J + j, lo:hi]
            time, fair, load = grid[J + j, lo:hi], grid[2 * J + j, lo:hi], grid[3 * J + j, lo:hi]
            for g in range(rows):
                bt[g] = e[g] * time[g] * load[g]
            for g in range(rows):
                bf[g] = e[g] * fair[g] * load[g]
            for g in range(rows):
                qt[g] = b00[g] * bt[g] + b01[g] * bf[g]
            for g in range(rows):
                qf[g] = b01[g] * bt[g] + b11[g] * bf[g]
            own, with_y = 0.0, 0.0
            for g in range(rows):
                own += n[g] * load[g] * load[g] * e[g]
                with_y += n[g] * edge[g] * qf[g]
            matrix[j, j] += own
            matrix[j, J] += with_y
            matrix[J, j] -= with_y
            for i in range(j + 1):
                pt, pf, both = blocks[3 + 3 * J + i, lo:hi], blocks[3 + 4 * J + i, lo:hi], 0.0
                for g in range(rows):
                    both += n[g] * (bt[g] * pt[g] + bf[g] * pf[g])
                matrix[j, i] -= both
                if i < j:
                    matrix[i, j] -= both
        own = 0.0
        for g in range(rows):
            own += n[g] * edge[g] * edge[g] * b11[g]
        matrix[J, J] += own


@jitted
def once(jobs, grid, soft, blocks, matrix, given, point):  # type: ignore[no-untyped-def]
    """The point with G'z + REGULAR x = rx, G x - soft z = rz, where ``given`` is laid out as a point."""
    G, J = grid.shape[1], grid.shape[0] // 4
    top, row, last = J * G + 1, 2 * J * G + 1, 2 * (J + 1) * G + 1  # first sign, time row, capacity
    right = np.zeros(J + 1)
    for j in range(J):
        right[j] = -given[last + j]
    right[J] = given[top - 1]
    for lo in range(0, G, CHUNK):
        hi = min(lo + CHUNK, G)
        n, edge, rows = jobs[0, lo:hi], jobs[1, lo:hi], hi - lo
        i00, i01, i11 = blocks[0, lo:hi], blocks[1, lo:hi], blocks[2, lo:hi]
        ut, uf = blocks[5 * J + 3, lo:hi], blocks[5 * J + 4, lo:hi]
        zt, zf = point[row + lo : row + hi], point[row + G + lo : row + G + hi]
        rt, rf = given[row + lo : row + hi], given[row + G + lo : row + G + hi]
        for g in range(rows):
            ut[g] = -rt[g]
        for g in range(rows):
            uf[g] = -rf[g]
        for j in range(J):
            low, high = j * G + lo, j * G + hi
            x, e, w, rx, rz = (
                point[low:high],
                blocks[3 + j, lo:hi],
                soft[low:high],
                given[low:high],
                given[top + low : top + high],
            )
            sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
            for g in range(rows):
                x[g] = e[g] * (rx[g] - sign[g] * rz[g] / w[g])
            for g in range(rows):
                ut[g] += time[g] * x[g]
            for g in range(rows):
                uf[g] += fair[g] * x[g]
        for g in range(rows):
            zt[g] = i00[g] * ut[g] + i01[g] * uf[g]
        for g in range(rows):
            zf[g] = i01[g] * ut[g] + i11[g] * uf[g]
        own = 0.0
        for g in range(rows):
            own += n[g] * edge[g] * zf[g]
        right[J] -= own
        for j in range(J):
            x, load = point[j * G + lo : j * G + hi], grid[3 * J + j, lo:hi]
            bt, bf = blocks[3 + J + j, lo:hi], blocks[3 + 2 * J + j, lo:hi]
            own = 0.0
            for g in range(rows):
                own += n[g] * (load[g] * x[g] - bt[g] * zt[g] - bf[g] * zf[g])
            right[j] += own
    answer = eliminate(matrix, right)
    y = answer[J]
    point[top - 1] = y
    for j in range(J):
        point[last + j] = answer[j]
    for lo in range(0, G, CHUNK):
        hi = min(lo + CHUNK, G)
        edge, rows, i01, i11 = jobs[1, lo:hi], hi - lo, blocks[1, lo:hi], blocks[2, lo:hi]
        zt, zf = point[row + lo : row + hi], point[row + G + lo : row + G + hi]
        for g in range(rows):
            zt[g] += i01[g] * edge[g] * y
        for g in range(rows):
            zf[g] += i11[g] * edge[g] * y
        for j in range(J):
            qt, qf, price = blocks[3 + 3 * J + j, lo:hi], blocks[3 + 4 * J + j, lo:hi], answer[j]
            for g in range(rows):
                zt[g] -= qt[g] * price
            for g in range(rows):
                zf[g] -= qf[g] * price
        for j in range(J):
            low, high, price = j * G + lo, j * G + hi, answer[j]
            x, e, w, rz = point[low:high], blocks[3 + j, lo:hi], soft[low:high], given[top + low : top + high]
            sign, time, fair = grid[j, lo:hi], grid[J + j, lo:hi], grid[2 * J + j, lo:hi]
            load, z = grid[3 * J + j, lo:hi], point[top + low : top + high]
            for g in range(rows):
                x[g] -= e[g] * (time[g] * zt[g] + fair[g] * zf[g] + load[g] * price)
            for g in range(rows):
                z[g] = -(sign[g] * x[g] + rz[g]) / w[g]


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
