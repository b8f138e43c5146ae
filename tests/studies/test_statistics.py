"""Statistics over seeds, against scipy and numpy."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from detgraph.studies.statistics import Paired, mean_and_std, paired, spread


def test_mean_and_std_against_numpy() -> None:
    values = np.random.default_rng(0).normal(size=7).tolist()
    assert mean_and_std(values) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert mean_and_std([0.5]) == (0.5, None)


def test_spread() -> None:
    assert spread([0.81, 0.83]) == "0.820 ± 0.014"
    assert spread([0.81, 0.83], digits=4) == "0.8200 ± 0.0141"
    assert spread([0.5]) == "0.500"


def test_paired_against_scipy() -> None:
    rng = np.random.default_rng(1)
    one = dict(enumerate(rng.normal(0.84, 0.01, 10).tolist()))
    other = dict(enumerate(rng.normal(0.83, 0.01, 12).tolist(), start=2))  # seeds 2 to 9 are shared
    found = paired(one, other, higher_is_better=True)
    assert found is not None
    ours, theirs = [one[seed] for seed in range(2, 10)], [other[seed] for seed in range(2, 10)]
    assert found.seeds == 8
    assert found.difference == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.p == pytest.approx(ttest_rel(ours, theirs).pvalue)
    assert found.p == pytest.approx(ttest_1samp(np.subtract(ours, theirs), 0).pvalue)
    assert found.wins == sum(np.subtract(ours, theirs) > 0)


def test_the_order_of_seeds_does_not_matter_and_pairs_are_kept() -> None:
    one, other = {0: 0.1, 1: 0.5, 2: 0.9}, {2: 0.8, 1: 0.4, 0: 0.05}
    found = paired(one, other, higher_is_better=True)
    assert found is not None
    assert found.p is not None
    assert found.p < 0.05  # as pairs they are far apart, as two samples they are not
    assert found.wins == 3


def test_lower_may_be_better() -> None:
    found = paired({0: 1.0, 1: 2.0, 2: 3.0}, {0: 2.0, 1: 4.0, 2: 2.5}, higher_is_better=False)
    assert found is not None
    assert found.wins == 2
    assert found.difference == pytest.approx(-2.5 / 3)


def test_where_the_test_says_nothing() -> None:
    assert paired({0: 1.0}, {1: 1.0}, higher_is_better=True) is None
    assert paired({0: 1.0}, {0: 0.5}, higher_is_better=True) == Paired(1, 0.5, 1, None)
    assert paired({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}, higher_is_better=True) == Paired(2, 0.0, 0, None)
    assert paired({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}, higher_is_better=True) == Paired(2, 0.5, 2, None)
