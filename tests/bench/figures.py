"""Arithmetic on what was measured: medians, ratios round by round, and verdicts.

A record is what one comparison left: a dictionary that goes into the JSON as it is.
  section, shape     what was compared, as words
  seconds            {contestant: [by the wall clock, one for each round]}
  processor_seconds  {contestant: [of all its threads]}
  work               {contestant: operations or bytes of one run}
  others             [share of the processors that others took, one for each round]
  repeated           rounds that were thrown away because others took too much
  absent             {contestant: why it took no part}
"""

import dataclasses
import statistics

DISTURBED = 0.03  # the share of the processors beyond which a round is repeated

PEERS = ("torch", "onnxruntime", "openvino")


def median(numbers):
    return statistics.median(numbers)


def spread(numbers):
    """Half the distance between the quartiles, as a share of the median; 0 for fewer than two numbers."""
    if len(numbers) < 2:
        return 0.0
    low, _, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(numbers)


def took_part(record, *contestants):
    return all(record["seconds"].get(name) for name in contestants)


def seconds(record, contestant):
    return median(record["seconds"][contestant])


def rate(record, contestant):
    """Operations or bytes per second."""
    return record["work"][contestant] / seconds(record, contestant)


def time_ratio(record, contestant, other, clock="seconds"):
    """The time of a contestant as a share of another's: the median over the rounds, in each of which both ran."""
    pairs = zip(record[clock][contestant], record[clock][other], strict=True)
    return median([mine / theirs for mine, theirs in pairs])


def rate_ratio(record, contestant, other, clock="seconds"):
    """The rate of a contestant as a share of another's, likewise."""
    work = record["work"]
    return work[contestant] / work[other] / time_ratio(record, contestant, other, clock)


def best_peer(record):
    """The fastest of the peers, or None if none took part."""
    present = [name for name in PEERS if took_part(record, name)]
    return min(present, key=lambda name: seconds(record, name)) if present else None


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a figure is to be: at least, or at most, a number."""

    bound: float
    at_least: bool = True

    def attained(self, figure):
        """1 or more if the goal is reached: how much of it is there."""
        return figure / self.bound if self.at_least else self.bound / figure

    def verdict(self, figure):
        attained = self.attained(figure)
        if attained >= 1:
            return "reached"
        # Never "missed by 0 %".
        off = 1 - attained if self.at_least else 1 / attained - 1
        return f"missed by {max(100 * off, 0.1):.{0 if off >= 0.1 else 1}f} %"


@dataclasses.dataclass
class Row:
    """A line of the table: of all figures under one goal the worst."""

    work: str
    goal: Goal
    unit: str  # "x", "%", "us" or "MiB"
    figure: float | None = None  # None: not measured
    why_not: str = ""
    processor_figure: float | None = None  # the same by processor time
    peer: str = ""
    limit: str = ""
    where: str = ""  # the worst of several
    reached: int = 0
    of: int = 0
    is_ratio: bool = True  # of two figures of the same run

    def verdict(self):
        if self.figure is None:
            return self.why_not
        text = self.goal.verdict(self.figure)
        return f"{text} ({self.reached} of {self.of})" if self.of > 1 else text

    def far_off(self):
        """A ratio of less than half its goal, by processor time too: what CI, among neighbours, fails at."""
        ratios = [ratio for ratio in (self.figure, self.processor_figure) if ratio is not None]
        return bool(ratios) and self.is_ratio and all(self.goal.attained(ratio) < 0.5 for ratio in ratios)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A candidate for a row."""

    goal: Goal
    figure: float
    processor_figure: float | None = None
    peer: str = ""
    limit: str = ""
    where: str = ""


def row_of(work, unit, goal, figures, why_not="not measured", is_ratio=True):
    """The row of the figure that is furthest from its goal. `goal` is shown if there is none."""
    if not figures:
        return Row(work, goal, unit, why_not=why_not, is_ratio=is_ratio)
    worst = min(figures, key=lambda each: each.goal.attained(each.figure))
    return Row(work, worst.goal, unit, worst.figure, processor_figure=worst.processor_figure, peer=worst.peer,
               limit=worst.limit, where=worst.where, is_ratio=is_ratio, of=len(figures),
               reached=sum(each.goal.attained(each.figure) >= 1 for each in figures))
