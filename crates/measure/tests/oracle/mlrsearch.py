"""Runs the package MLRsearch (PyPI, 1.2.1) beside Catena's search, on the same simulated devices.

Each line of input is a question, each line of output its answer, numbers separated by spaces:

  search CAPACITY MIN MAX LOSS EXCEED FINAL SUM WIDTH  ->  LOWER UPPER CONDITIONAL_THROUGHPUT
  classify LOSS EXCEED FINAL SUM [DURATION LOSS_RATIO]...  ->  lower, upper or undecided
"""

import sys

from MLRsearch import (
    AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal,
)
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat


class Device(AbstractMeasurer):
    """Forwards up to its capacity."""

    def __init__(self, capacity):
        self.capacity = capacity

    def measure(self, intended_duration, intended_load):
        sent = max(1, round(intended_load * intended_duration))
        lost = max(0.0, 1.0 - self.capacity / intended_load) * sent
        lost = -int(-lost // 1)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            loss_count=lost,
        )


def search(capacity, low, high, loss, exceed, final, whole, width):
    goal = SearchGoal(
        loss_ratio=loss, exceed_ratio=exceed, relative_width=width,
        initial_trial_duration=final, final_trial_duration=final, duration_sum=whole,
    )
    config = Config()
    config.goals = [goal]
    config.max_load = high
    config.min_load = low
    config.warmup_duration = 0.0
    found = MultipleLossRatioSearch(config).search(Device(capacity), debug=lambda _: None)[goal]
    bounds = found.relevant_lower_bound, found.relevant_upper_bound
    return *(float(bound) for bound in bounds), float(found.conditional_throughput)


def classify(loss, exceed, final, whole, *trials):
    target = TargetSpec(
        loss_ratio=loss, exceed_ratio=exceed, discrete_width=None, trial_duration=final,
        duration_sum=whole, expansion_coefficient=2, fail_fast=False, preceding=None,
    )
    stat = TargetStat(target)
    for duration, ratio in zip(trials[::2], trials[1::2]):
        sent = 1_000_000
        stat.add(MeasurementResult(
            intended_duration=duration, intended_load=1e6, offered_count=sent,
            loss_count=round(ratio * sent), duration_with_overheads=duration,
            intended_count=sent,
        ))
    optimistic, pessimistic = stat.estimates()
    if optimistic != pessimistic:
        return ("undecided",)
    return ("lower" if optimistic else "upper",)


for line in sys.stdin:
    name, *values = line.split()
    answer = {"search": search, "classify": classify}[name](*map(float, values))
    print(*answer, flush=True)
