"""Random entities that compete with the answers of a batch, where all would take too long."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Rivals:
    r"""A sample of all entities in the softmax: :math:`\ln \frac{n}{m}` more for each of m that stand for n.

    So raised, the sum over the sample is that over all entities on average.

    Args:
        among: (entities,) that may compete, ascending.
        wanted: how many compete with the answers.
    """

    def __init__(self, among: Integers, wanted: int) -> None:
        self.among, self.wanted = among, wanted

    def draw(self, answers: Integers, rng: np.random.Generator) -> tuple[Integers, NDArray[np.float32]]:
        """The candidates, distinct answers first and in order; and what is added to their scores.

        Args:
            answers: (any number,) of a batch.
            rng: draws the rivals.
        """
        answers = np.unique(answers)
        others = np.setdiff1d(self.among, answers, assume_unique=True)
        drawn = rng.permutation(others)[: self.wanted]
        extra = np.zeros(len(answers) + len(drawn), np.float32)
        if len(drawn):
            extra[len(answers) :] = np.log(len(others) / len(drawn))
        return np.append(answers, drawn), extra
