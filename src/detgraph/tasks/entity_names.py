"""Entities and relations by the names people use."""

from collections.abc import Sequence
from difflib import get_close_matches

from detgraph.errors import DetError

MOST_SHOWN = 6  # of names that might be meant


class Names:
    """Ids and human names of entities or relations; either finds the number.

    Names may be "lemma, explanation", as those of WordNet: the part before the comma does, too.

    Args:
        kind: "entity" or "relation", for messages.
        ids: the user's ids.
        names: a name for each id.
    """

    def __init__(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> None:
        self.kind, self.ids, self.names = kind, ids, names
        self.by_id = {text: number for number, text in enumerate(ids)}
        self.by_name: dict[str, list[int]] = {}
        self.by_lemma: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            self.by_name.setdefault(name.casefold(), []).append(number)
            self.by_lemma.setdefault(name.split(",")[0].casefold(), []).append(number)

    def find(self, text: str) -> int:
        """The number of an id or name.

        Raises:
            DetError: if there is none or more than one, with what might be meant.
        """
        number = self.get(text)
        if number is None:
            raise DetError(f"no {self.kind} is called {text!r}.{self.hint(text)} Give an id or a whole name.")
        return number

    def get(self, text: str) -> int | None:
        """The number of an id, whole name or lemma, in this order; None where there is none."""
        if text in self.by_id:
            return self.by_id[text]
        wanted = text.strip().casefold()
        found = self.by_name.get(wanted) or self.by_lemma.get(wanted, [])
        if len(found) > 1:
            raise DetError(
                f"{len(found)} {self.kind} names are {text!r}. Give the id of one: {self.listed(found)}."
            )
        return found[0] if found else None

    def near(self, text: str) -> list[int]:
        """Numbers of names that hold ``text``, or else are spelt like it."""
        wanted = text.strip().casefold()
        holding = [number for number, name in enumerate(self.names) if wanted in name.casefold()]
        if holding:
            return sorted(holding, key=lambda number: len(self.names[number]))[:MOST_SHOWN]
        every = self.by_lemma | self.by_name
        return [every[name][0] for name in get_close_matches(wanted, every, n=MOST_SHOWN)]

    def hint(self, text: str) -> str:
        """A sentence with names near to ``text``, if there are any."""
        near = self.near(text)
        return f" Similar: {self.listed(near)}." if near else ""

    def listed(self, numbers: Sequence[int]) -> str:
        """Names with their ids, the first few."""
        shown = ", ".join(self.label(number) for number in numbers[:MOST_SHOWN])
        return shown + (" and more" if len(numbers) > MOST_SHOWN else "")

    def label(self, number: int) -> str:
        """The name, and the id where it says something else."""
        name, own = self.names[number], self.ids[number]
        return name if name == own else f"{name} ({own})"
