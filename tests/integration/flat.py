# SPDX-License-Identifier: Apache-2.0
"""Whether what a process holds stays as it is: figures of the system's own, by time, and a rule that says which of them grow.

The rule compares the median of the first stretch of a series with that of its last one, by a tolerance that each figure
states (TOLERANCES). A stretch is a whole number of `period`s, the longest time after which programs clean up: what rises until then
and falls again has the same median in each of them, wherever they begin. A leak of less than the tolerance within the time that is
looked at is not found: the longer that is, the smaller are the leaks that are found.
"""

import collections
import dataclasses
import os
import statistics

KIB, MIB = 1 << 10, 1 << 20

# A figure may grow by `least`, or by `share` of what it was, whichever is more.
Tolerance = collections.namedtuple("Tolerance", "least share unit")
TOLERANCES = {
    # What an allocator keeps and gives back moves by as much; memory that belongs to no file, in bytes.
    "memory": Tolerance(2 * MIB, 0.05, KIB),
    "descriptors": Tolerance(6, 0, 1),
    "threads": Tolerance(1, 0, 1),
    # Below the program's folder: as many as were made while files are kept, and on a busy machine fewer are made.
    "files": Tolerance(12, 0.3, 1),
    "bytes": Tolerance(8 * MIB, 0.3, KIB),  # of these files: chance alone makes three of the largest more or less
}
SAMPLES_MIN = 20  # fewer say nothing


@dataclasses.dataclass
class Verdict:
    """Of one figure of one program. `slope` is by least squares, per second; `flat` is None where there is too little to look at."""

    first: float
    last: float
    peak: float
    slope: float
    seconds: float
    flat: bool | None


def judge(samples, tolerance, period):
    """`samples`: (seconds, value), by time, of a program that is warm."""
    values = [value for _, value in samples]
    seconds = samples[-1][0] - samples[0][0] if samples else 0.0
    if len(samples) < SAMPLES_MIN:
        return Verdict(*((values[0], values[-1], max(values)) if values else (0, 0, 0)), 0.0, seconds, None)
    stretch = max(1, int(0.4 * seconds // period)) * period
    if 2 * stretch > seconds:
        stretch = seconds / 2
    begin, end = samples[0][0], samples[-1][0]
    first = statistics.median(value for at, value in samples if at <= begin + stretch)
    last = statistics.median(value for at, value in samples if at >= end - stretch)
    slope = statistics.linear_regression(*zip(*samples)).slope
    return Verdict(first, last, max(values), slope, seconds, last - first <= max(tolerance.least, tolerance.share * first))


def figures_of(pid, folder=None):
    """What the system says of a process, and of the files that it keeps. Raises OSError where it is gone."""
    with open(f"/proc/{pid}/status") as file:
        said = dict(line.split(":", 1) for line in file)
    figures = {"memory": int(said["RssAnon"].split()[0]) * KIB, "threads": int(said["Threads"]),
               "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    if folder is not None:
        sizes = list(sizes_below(folder))
        figures |= {"files": len(sizes), "bytes": sum(sizes)}
    return figures


def sizes_below(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                pass  # deleted since it was listed


class Watched:
    """One program through all its lives. A life is a process of its own, with series of its own."""

    def __init__(self, name, folder=None):
        self.name, self.folder = name, folder
        self.lives = []  # (when it began, figure -> samples)
        self.peaks = collections.Counter()

    def begins(self, now):
        self.lives.append((now, {}))

    def look(self, pid, now):
        try:
            figures = figures_of(pid, self.folder)
        except (OSError, KeyError):  # it has ended, and what is left of it has no memory
            return
        for figure, value in figures.items():
            self.lives[-1][1].setdefault(figure, []).append((now, value))
            self.peaks[figure] = max(self.peaks[figure], value)

    def verdicts(self, begin, end, period, cached_bytes=0):
        """By figure, of the life that lasted from `begin` to `end`; none where there is no such life. Its memory may grow by
        `cached_bytes` besides."""
        ends = [began for began, _ in self.lives[1:]] + [float("inf")]
        verdicts = {}
        for (began, series), ended in zip(self.lives, ends):
            if began > begin or ended < end:
                continue
            for figure, samples in series.items():
                tolerance = TOLERANCES[figure]
                if figure == "memory":
                    tolerance = tolerance._replace(least=tolerance.least + cached_bytes)
                verdicts[figure] = judge([sample for sample in samples if begin <= sample[0] <= end], tolerance, period)
        return verdicts
