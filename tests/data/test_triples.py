import gzip
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from detgraph.data.triples import Triples, read_triples
from detgraph.errors import DetError

TRAIN = "berlin\tcapital of\tgermany\nparis\tcapital of\tfrance\nberlin\tnear\tparis\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def spelled(triples: Triples, split: str) -> list[tuple[str, str, str]]:
    rows = getattr(triples, split)
    return [(triples.entities[h], triples.relations[r], triples.entities[t]) for h, r, t in rows]


def data_folder(name: str) -> Path:
    path = Path(os.environ.get("DET_DATA", "")) / name
    if "DET_DATA" not in os.environ or not path.is_dir():
        pytest.skip(f"needs DET_DATA with {name}/")
    return path


def test_three_files(tmp_path: Path) -> None:
    triples = read_triples(
        write(tmp_path / "train.txt", TRAIN),
        write(tmp_path / "valid.txt", "\nrome\tcapital of\titaly\r\n\n"),
        write(tmp_path / "test.txt", "paris\tin\tfrance\nberlin\tnear\tparis\n"),
        name="cities",
    )
    assert triples.entities == ("berlin", "france", "germany", "italy", "paris", "rome")
    assert triples.relations == ("capital of", "in", "near")
    assert triples.train.dtype == np.int64
    assert spelled(triples, "train") == [tuple(line.split("\t")) for line in TRAIN.splitlines()]
    assert spelled(triples, "valid") == [("rome", "capital of", "italy")]
    assert spelled(triples, "test") == [("paris", "in", "france"), ("berlin", "near", "paris")]
    assert triples.entity_names == triples.entities
    assert triples.notes == (
        "1 triples of test are also in train: a leak, kept as given",
        "2 entities of valid and test are unseen in train: kept",
        "1 relations of valid and test are unseen in train: kept",
    )


def test_names_gzip_and_duplicates(tmp_path: Path) -> None:
    train = tmp_path / "train.txt.gz"
    train.write_bytes(gzip.compress(("Q64\tP36\tQ183\n" * 3 + "Q90\tP36\tQ142\n").encode()))
    triples = read_triples(
        train,
        write(tmp_path / "valid.txt", ""),
        write(tmp_path / "test.txt", ""),
        entity_names=write(tmp_path / "names.txt", "Q64\tBerlin, Stadt\nQ90\tParis ünd\n"),
        relation_names=write(tmp_path / "relations.txt", "P36\tcapital\n"),
        name="cities",
    )
    assert len(triples.train) == 2
    assert triples.valid.shape == (0, 3)
    assert dict(zip(triples.entities, triples.entity_names, strict=True)) == {
        "Q142": "Q142",
        "Q183": "Q183",
        "Q64": "Berlin, Stadt",
        "Q90": "Paris ünd",
    }
    assert triples.relation_names == ("capital",)
    assert triples.notes == (
        "2 duplicate lines of train.txt.gz merged",
        "2 entities have no name in names.txt: shown by their id",
    )


def test_random_split_is_seeded_and_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "all.txt", "".join(f"e{i}\tr{i % 3}\te{i + 1}\n" for i in range(100)))
    first, again, other = (read_triples(path, None, None, name="chain", split_seed=s) for s in (0, 0, 1))
    assert [len(first.train), len(first.valid), len(first.test)] == [80, 10, 10]
    together = spelled(first, "train") + spelled(first, "valid") + spelled(first, "test")
    assert len(set(together)) == 100
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    assert "no validation and test file: 80/10/10 of the triples at random, seed 0" in first.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TRAIN + "\na\tb\n",
            r"train\.txt:5: has 2 tab-separated columns, expected 3: head<TAB>relation<TAB>tail",
        ),
        ("a b c\n", r"train\.txt:1: has 1 tab-separated columns"),
        ("a\tb\tc\td\n", r"train\.txt:1: has 4 tab-separated columns"),
        ("a\t \tc\n", r"train\.txt:1: has a blank head or relation or tail"),
        ("\n\n", r"train\.txt: holds no triple"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DetError, match=message):
        read_triples(write(tmp_path / "train.txt", text), None, None, name="bad")


def test_bad_files_are_refused(tmp_path: Path) -> None:
    train = write(tmp_path / "train.txt", TRAIN)
    with pytest.raises(DetError, match="only a validation file is given"):
        read_triples(train, train, None, name="bad")
    with pytest.raises(DetError, match=r"none\.txt: there is no such file"):
        read_triples(tmp_path / "none.txt", None, None, name="bad")
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(TRAIN.encode())[:-12])
    with pytest.raises(DetError, match=r"broken\.gz: is not a whole gzip file"):
        read_triples(broken, None, None, name="bad")
    broken.write_bytes(b"plain")
    with pytest.raises(DetError, match=r"broken\.gz: is not a whole gzip file"):
        read_triples(broken, None, None, name="bad")
    names = write(tmp_path / "twice.txt", "a\tone\n\nb\tx\na\tone\na \ttwo\n")
    with pytest.raises(
        DetError, match=r"twice\.txt:5: the name of 'a' is 'two', but at .*twice\.txt:1 'one'\. Keep one"
    ):
        read_triples(train, None, None, entity_names=names, name="bad")
    names = write(tmp_path / "names.txt", "berlin\n")
    with pytest.raises(DetError, match=r"names\.txt:1: has 1 tab-separated columns, expected 2: id<TAB>name"):
        read_triples(train, None, None, entity_names=names, name="bad")


def test_fb15k_237() -> None:
    folder = data_folder("fb15k-237")
    triples = read_triples(
        folder / "train.txt.gz",
        folder / "valid.txt.gz",
        folder / "test.txt.gz",
        entity_names=folder / "entity2text.txt",
        relation_names=folder / "relation2text.txt",
        name="fb15k-237",
    )
    assert [len(triples.train), len(triples.valid), len(triples.test)] == [272115, 17535, 20466]
    assert (len(triples.entities), len(triples.relations)) == (14541, 237)
    assert len(np.unique(triples.train[:, [0, 2]])) == 14505
    assert triples.entity_names[triples.entities.index("/m/016ywr")] == "Jeremy Irons"
    assert triples.notes == ("36 entities of valid and test are unseen in train: kept",)


def test_wn18rr() -> None:
    folder = data_folder("wn18rr")
    triples = read_triples(
        folder / "train.txt.gz",
        folder / "valid.txt",
        folder / "test.txt",
        entity_names=folder / "entity2text.txt.gz",
        relation_names=folder / "relation2text.txt",
        name="wn18rr",
    )
    assert [len(triples.train), len(triples.valid), len(triples.test)] == [86835, 3034, 3134]
    assert (len(triples.entities), len(triples.relations)) == (40943, 11)
    assert len(np.unique(triples.train[:, [0, 2]])) == 40559
    assert triples.entity_names[triples.entities.index("00590383")].startswith("chieftainship, ")


def test_umls_inside_pykeen() -> None:
    spec = importlib.util.find_spec("pykeen")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("needs pykeen, for the files of UMLS")
    folder = Path(spec.submodule_search_locations[0]) / "datasets" / "umls"
    triples = read_triples(*(folder / f"{split}.txt" for split in ("train", "valid", "test")), name="umls")
    assert len(triples.train) + len(triples.valid) + len(triples.test) == 6529
    assert (len(triples.entities), len(triples.relations)) == (135, 46)
    assert ("steroid", "interacts_with", "eicosanoid") in spelled(triples, "test")


def test_a_header_is_no_triple(tmp_path: Path) -> None:
    train = write(tmp_path / "train.txt", "Head\tRelation\tTail\n" + TRAIN)
    with pytest.raises(DetError, match=r"train\.txt:1: is a header"):
        read_triples(train, None, None, name="cities")
