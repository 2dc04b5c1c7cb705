"""Contestants that take turns, so that all of them see the same machine."""

import dataclasses
import time

import children
import figures


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    child: children.Child
    words: str  # the question, without `warm` and `runs`
    work: float = 0  # operations or bytes of one run


@dataclasses.dataclass(frozen=True)
class Effort:
    rounds: int = 5  # of each contestant, at most
    fewest: int = 3
    seconds: float = 6.0  # that the rounds of one comparison may take, unless the fewest take longer


# A burst is as many runs as fill this time; of each burst the median counts.
BURST_SECONDS = 0.03
MOST_RUNS = 31
# Of runs that are longer the first counts too: what it finds cold is a small part of it.
LONG_SECONDS = 0.5
# Peers' threads may spin for a moment after their run.
SETTLE_SECONDS = 0.03


class Comparison:
    def __init__(self, everyone, patience, effort):
        self._everyone = everyone  # all children, whose processor time is not that of others
        self._patience = patience
        self._effort = effort

    def run(self, section, shape, contestants):
        """A record (figures.py). Contestants that cannot do this are listed as absent."""
        record = {"section": section, "shape": shape, "seconds": {}, "processor_seconds": {}, "work": {}, "others": [],
                  "repeated": 0, "absent": {}}
        bursts = []
        for contestant in contestants:
            try:
                first = contestant.child.ask(f"{contestant.words} warm=0 runs=1")["wall"][0]
                if first < LONG_SECONDS:  # the first made what the next finds
                    first = contestant.child.ask(f"{contestant.words} warm=0 runs=1")["wall"][0]
            except children.ChildError as error:
                record["absent"][contestant.name] = str(error)
                continue
            bursts.append((contestant, first))
            record["work"][contestant.name] = contestant.work
            record["seconds"][contestant.name] = []
            record["processor_seconds"][contestant.name] = []
        for number in range(self._rounds(bursts)):
            self._round(bursts if number % 2 == 0 else bursts[::-1], record)
        return record

    def _rounds(self, bursts):
        if not bursts:
            return 0
        one = sum(max(2 * first if first < LONG_SECONDS else first, BURST_SECONDS) + SETTLE_SECONDS
                  for _, first in bursts)
        return max(self._effort.fewest, min(self._effort.rounds, int(self._effort.seconds / one)))

    def _round(self, bursts, record):
        times, share, repeated = self.undisturbed(
            lambda: {contestant.name: self._burst(contestant, first) for contestant, first in bursts})
        record["others"].append(share)
        record["repeated"] += repeated
        for name, (wall, processor) in times.items():
            record["seconds"][name].append(wall)
            if processor is not None:
                record["processor_seconds"][name].append(processor)

    def repeat(self, record, rounds, measure):
        """What `measure` returned in so many rounds, those that were repeated left out but counted in the record."""
        record.update(others=[], repeated=0)
        results = []
        for _ in range(rounds):
            result, share, repeated = self.undisturbed(measure)
            results.append(result)
            record["others"].append(share)
            record["repeated"] += repeated
        return results

    def undisturbed(self, measure):
        """What `measure` returns, the share of the processors that others took, and how often it was repeated for that
        while there was patience left."""
        repeated = 0
        while True:
            start = time.monotonic()
            watch = children.Watch(self._everyone)
            result = measure()
            share = watch.share()
            if share <= figures.DISTURBED or self._patience.left <= 0:
                return result, share, repeated
            repeated += 1
            self._patience.spend(time.monotonic() - start)
            self._patience.wait_for_quiet(self._everyone, figures.DISTURBED)

    @staticmethod
    def _burst(contestant, first):
        """Medians by the wall clock and, of those who say it, by processor time."""
        if contestant.name in figures.PEERS:
            time.sleep(SETTLE_SECONDS)
        runs = max(1, min(MOST_RUNS, int(BURST_SECONDS / max(first, 1e-9)))) | 1
        warm = 1 if first < LONG_SECONDS else 0
        answer = contestant.child.ask(f"{contestant.words} warm={warm} runs={runs}")
        if contestant.name in figures.PEERS:
            time.sleep(SETTLE_SECONDS)
        return figures.median(answer["wall"]), figures.median(answer["processor"]) if "processor" in answer else None
