"""The four-feature score by hand."""

from eunomia.inference.policies.pressure import pressure
from tests.inference.policies.views import ask, job

ONE = [[1.0]]


def frame(deadline_s: float, work_s: float, **facts: float) -> dict[str, float]:
    """A request of ten layers of 1 s, of which ``work_s`` are left."""
    return job(
        **{"deadline_s": deadline_s, "work_best_s": work_s, "iso_best_s": 10.0, "layers_total": 10, **facts}
    )


def test_laxity_counts_against_pressure_from_shorter_requests() -> None:
    # Mean layer 1 s, one accelerator, t = 0.
    # A: deadline 12, 4 left: ttd 0.1, laxity 8, lr 0.5 * 8/5 = 0.8, nothing shorter: -0.096 - 1.072 = -1.168.
    # B: deadline 12, 9 left: ttd 0.1, laxity 3, lr 0.5 * 3/10 = 0.15, 4 s shorter: 4/3: -0.096 - 0.201 - 3.08 = -3.377.
    # By laxity alone B would go first; it would be late if A went first, which the score gives up.
    assert ask(pressure(), [frame(12.0, 9.0), frame(12.0, 4.0)], ONE * 2) == [(1, 0)]
    # Two accelerators, B with deadline 20 and 9 s left, A with deadline 60 and 1 s left. A: ttd 0.5, lr 1.5 (cut from
    # 29.5 by half of 3): -0.48 - 2.01 = -2.49. B: ttd 1/6, laxity 11, lr 0.55, pressure 1/2/11: -0.16 - 0.737 - 0.105.
    assert ask(pressure(), [frame(20.0, 9.0), frame(60.0, 1.0)], [[1.0, 2.0]] * 2) == [(0, 0)]


def test_hopeless_requests_go_last_and_press_on_nobody() -> None:
    # C: deadline 1, 3 left: hopeless; ttd 1/120, laxity -2, lr -0.25: -6.14 - 0.008 + 0.335 = -5.81.
    # D: deadline 60, 5 left: ttd 0.5, lr 1.5, no pressure as C does not count: -0.48 - 2.01 = -2.49.
    lost, late_last = frame(1.0, 3.0), dict(late_last=0)
    assert ask(pressure(), [lost, frame(60.0, 5.0)], ONE * 2, **late_last) == [(1, 0)]
    # E: deadline 9, 8 left, beside three such C. Counted, 9 s over a laxity of 1 s, cut to 3, would cost 6.93,
    # and E's -0.072 - 0.074 - 6.93 = -7.08 would lose to C's -5.81. Not counted: -0.146.
    assert ask(pressure(), [lost, lost, lost, frame(9.0, 8.0)], ONE * 4, **late_last) == [(3, 0)]


def test_a_request_with_two_waiting_branches_presses_once() -> None:
    # F: deadline 14, 10 left: laxity 4, ttd 0.117, lr 0.5 * 4/11 = 0.182. G: 3 s left, two branches wait, deadline 200.
    # G once: 3/4: F = -0.112 - 0.244 - 1.7325 = -2.088 > G = -0.96 * 1.667 - 2.01 = -3.61. Counted twice, 6/4 makes F
    # -3.82, less than G.
    branch = frame(200.0, 3.0, request=7)
    assert ask(pressure(), [branch, {**branch, "layer": 1}, frame(14.0, 10.0)], ONE * 3) == [(2, 0)]
    assert ask(pressure(), [branch, {**branch, "request": 8}, frame(14.0, 10.0)], ONE * 3) == [(7, 0)]


def test_earliest_finish_decides_the_place() -> None:
    assert ask(pressure(), [frame(20.0, 5.0)], [[1, 4]], free_in_s=[2.0, 0.0]) == []
    assert ask(pressure(), [frame(20.0, 5.0)], [[1, 4]], free_in_s=[3.5, 0.0]) == [(0, 1)]
