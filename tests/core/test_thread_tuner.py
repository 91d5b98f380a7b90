"""Threads that give way while other programs compute."""

from __future__ import annotations

import pytest

from specdec_core.runtime.thread_tuner import (
    MAX_REST_S,
    MIN_REST_S,
    REMEMBERED_PASSES,
    TRIAL_PASSES,
    ThreadTuner,
)

PASS = {0: 2.0, 1: 0.010, 5: 0.012, 65: 0.060}  # seconds by width with all threads on a machine at rest


class Machine:
    """Takes `crowd` times as long as at rest with all threads, `few` times with half of them."""

    def __init__(self, most: int = 2) -> None:
        self.time, self.crowd, self.few = 0.0, 1.0, 1.4
        self.thread_tuner = ThreadTuner(most)

    def run(self, seconds: float, widths: tuple[int, ...] = (1,)) -> float:
        """Passes for so long; the share of them with all threads."""
        end, full, passes = self.time + seconds, 0, 0
        while self.time < end:
            width = widths[passes % len(widths)]
            all_compute = self.thread_tuner.count == self.thread_tuner.most
            took = PASS[width] * (self.crowd if all_compute else self.few)
            self.time += took
            full, passes = full + all_compute, passes + 1
            self.thread_tuner.observe(width, took, self.thread_tuner.count)
        return full / passes


def test_a_machine_at_rest_keeps_all_threads() -> None:
    """Passes of all widths, in turn. Catches: a wide pass that is taken for a slow one."""
    machine = Machine()
    assert machine.run(5, (1, 65, 5, 1)) == 1.0


def test_one_slow_pass_is_no_crowd() -> None:
    """However slow, once. Catches: threads given up at every hiccup."""
    machine = Machine()
    machine.run(1)
    machine.thread_tuner.observe(1, 100 * PASS[1], 2)
    assert machine.thread_tuner.count == 2
    assert machine.run(1) == 1.0


@pytest.mark.parametrize(("most", "fewer"), [(2, 1), (8, 4), (3, 1)])
def test_in_a_crowd_half_of_them_compute(most: int, fewer: int) -> None:
    """After two slow passes in a row. Catches: the slow passes of a crowd borne for long."""
    machine = Machine(most)
    machine.run(1)
    machine.crowd = 6.0
    machine.thread_tuner.observe(1, machine.crowd * PASS[1], most)
    machine.thread_tuner.observe(1, machine.crowd * PASS[1], most)
    assert machine.thread_tuner.count == fewer


def test_a_pass_of_a_new_width_hides_no_crowd() -> None:
    """Two lanes in turn, of which one reads trees that are new. Catches: a first pass that counts as undisturbed."""
    machine = Machine()
    machine.run(1)
    for width in (1, 5, 1, 65, 1):
        machine.thread_tuner.observe(width, 2.2 * PASS[width], 2)
    assert machine.thread_tuner.count == 1


def test_trying_costs_little_while_the_crowd_stays() -> None:
    """A minute among others: all threads are tried ever more rarely, and given up after one pass. Catches: trials that
    cost what the tuner saves."""
    machine = Machine()
    machine.run(1)
    machine.crowd = 20.0
    assert machine.run(60) < 0.01


def test_they_come_back_when_it_is_over() -> None:
    """Within the longest rest, and the next crowd is tried as soon as the first was."""
    machine = Machine()
    machine.run(1)
    machine.crowd = 6.0
    machine.run(60)
    machine.crowd = 1.0
    machine.run(MAX_REST_S + 0.5)
    assert machine.run(2) == 1.0
    machine.crowd = 6.0
    machine.run(0.5)
    began, machine.crowd = machine.time, 1.0
    while machine.thread_tuner.count < 2:
        machine.run(0.01)
    assert machine.time - began <= MIN_REST_S


def test_a_crowd_that_slows_half_of_them_more_is_none() -> None:
    """All passes take twice as long, with half of the threads thrice. Catches: half of the threads where all are
    faster, for example once a text is long."""
    machine = Machine()
    machine.run(1)
    machine.crowd, machine.few = 2.0, 3.0
    machine.run(3)
    assert machine.run(20) == 1.0, "measured by what passes take now"


def test_passes_that_cannot_be_compared_end_a_rest_and_a_trial() -> None:
    """Of a width that was not seen at rest. Catches: half of the threads for ever, a mean of nothing, and a trial that
    goes on while all wait."""
    machine = Machine()
    machine.run(1)
    machine.crowd = 6.0
    machine.run(2 * machine.crowd * PASS[1])
    assert machine.thread_tuner.count == 1
    machine.run(MIN_REST_S + 0.1, (5,))
    assert machine.thread_tuner.count == 2
    machine.run(1)
    assert machine.thread_tuner.count == 1
    machine.run(MIN_REST_S, (65,))
    assert machine.thread_tuner.count == 2, "on trial"
    machine.run(0.1, (65,))
    machine.run(0.1)
    assert machine.thread_tuner.count == 1, "noticed again"


@pytest.mark.parametrize("tuner", [ThreadTuner(1), ThreadTuner(2, computing=False)])
def test_nothing_to_choose(tuner: ThreadTuner) -> None:
    """One thread, or a GPU's. Catches: half of one, and a GPU's launches from another number of threads."""
    most = tuner.count
    for took in (0.01, 0.5, 0.5, 0.5):
        tuner.observe(1, took, most)
    assert tuner.count == most


def test_slow_passes_are_not_all_trials() -> None:
    """A target whose passes take two seconds, on a machine with a crowd that stays. Catches: a rest that is over after
    one pass."""
    machine = Machine()
    machine.run(30, (0,))
    machine.crowd = 6.0
    assert machine.run(600, (0,)) < 0.2
    assert REMEMBERED_PASSES * PASS[0] > MAX_REST_S > MIN_REST_S and TRIAL_PASSES > 1


def test_a_pass_that_began_with_another_number_of_threads_is_not_counted() -> None:
    """As another run of the process has changed it meanwhile. Catches: a crowded pass among those of half the threads,
    and one of half in a trial."""
    machine = Machine()
    machine.run(1)
    for _ in range(4):
        machine.thread_tuner.observe(1, 20 * PASS[1], 1)
    assert machine.thread_tuner.count == 2
