"""Numbers over seeds: mean and spread, and the difference of two models on the same seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from scipy.stats import ttest_rel


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, which a single value does not have."""
    return mean(values), stdev(values) if len(values) > 1 else None


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± sample standard deviation; a single value alone."""
    center, deviation = mean_and_std(values)
    if deviation is None:
        return f"{center:.{digits}f}"
    return f"{center:.{digits}f} ± {deviation:.{digits}f}"


@dataclass(frozen=True)
class Paired:
    """One model minus another over the seeds that both have."""

    seeds: int
    difference: float  # mean
    wins: int  # seeds on which the one is better
    p: float | None  # of the two-sided paired t-test; None where it says nothing

    @property
    def p_text(self) -> str:
        """Three digits, or the order of magnitude; nothing where there is no p."""
        if self.p is None:
            return ""
        return f"{self.p:.1e}" if self.p < 0.001 else f"{self.p:.3f}"


def paired(one: Mapping[int, float], other: Mapping[int, float], *, higher_is_better: bool) -> Paired | None:
    """Compare two models seed by seed; None if they share no seed."""
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        return None
    ours, theirs = [one[seed] for seed in seeds], [other[seed] for seed in seeds]
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    sign = 1 if higher_is_better else -1
    return Paired(
        seeds=len(seeds),
        difference=mean(gaps),
        wins=sum(sign * gap > 0 for gap in gaps),
        # Of one gap, or of equal ones, there is no variance to test with.
        p=float(ttest_rel(ours, theirs).pvalue) if len(set(gaps)) > 1 else None,
    )
