"""The paper's table of data sets beside what is counted in the data."""

from detgraph.data.benchmarks import load_benchmark
from detgraph.data.molecules import Molecules
from detgraph.data.networks import Network
from detgraph.data.triples import Triples
from detgraph.reproduce.target import Cell, Column, Measure, Published, Target

COUNT = Measure("count", "count", digits=0)
TITLES = {
    "pcqm4m": "PCQM4M",
    "zinc": "ZINC",
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "ppi": "PPI",
    "fb15k-237": "FB15K-237",
    "wn18rr": "WN18RR",
}
GRAPHS, NODES, EDGES, TYPES, CLASSES = ("graphs", "nodes", "edges", "edge types", "classes")
PAPER: dict[str, tuple[int | None, ...]] = {
    GRAPHS: (3_803_453, 12_000, 1, 1, 1, 24, 1, 1),
    NODES: (53_814_542, 277_920, 2_708, 3_327, 19_717, 56_944, 14_951, 40_943),
    EDGES: (55_399_880, 597_960, 5_429, 4_732, 44_338, 818_716, 310_116, 93_003),
    TYPES: (None, None, None, None, None, None, 237, 11),
    CLASSES: (None, None, 7, 6, 3, 121, 14_951, 40_943),
}
FB15K = "14,951 is the number of FB15K, of which FB15K-237 is a part"
LINKS = "the paper counts the raw list of links; here each pair of linked nodes counts once"
SPLITS = "triples of all splits, as in the paper"
NOTES = {
    ("zinc", NODES): "of another selection of training molecules than the official one",
    ("zinc", EDGES): "bonds in both directions, as in the paper; of another selection of training molecules",
    ("pcqm4m", EDGES): "the paper counts each bond once here, twice on ZINC",
    ("cora", EDGES): LINKS,
    ("citeseer", EDGES): LINKS,
    ("pubmed", EDGES): LINKS,
    ("fb15k-237", NODES): FB15K,
    ("fb15k-237", CLASSES): FB15K,
    ("fb15k-237", EDGES): SPLITS,
    ("wn18rr", EDGES): SPLITS,
}


def table_statistics() -> Target:
    """A row for each kind of count."""
    return Target(
        name="table-statistics",
        title="Data sets",
        caption="Counted in the data as it is read here, beside the paper's numbers.",
        columns=tuple(
            Column(name, title, COUNT, missing="the data could not be had") for name, title in TITLES.items()
        ),
        cells=tuple(
            Cell(name, kind, None, paper=Published(number), note=NOTES.get((name, kind), ""))
            for kind, numbers in PAPER.items()
            for name, number in zip(TITLES, numbers, strict=True)
            if number is not None
        ),
        facts=count,
    )


def count(dataset: str) -> dict[str, float]:
    """The counts of one data set."""
    data = load_benchmark(dataset)
    match data:
        case Molecules():
            bonds = int(data.graphs.bonds.start[-1])
            edges = bonds if dataset == "pcqm4m" else 2 * bonds
            return {GRAPHS: len(data.graphs), NODES: int(data.graphs.sizes.sum()), EDGES: edges}
        case Network():
            graph = data.graph
            graphs = int(graph.graph_id.max()) + 1 if "graph_id" in graph else 1
            edges = int(graph.edge_index.size(1)) // 2
            return {GRAPHS: graphs, NODES: len(data.nodes), EDGES: edges, CLASSES: len(data.classes)}
        case Triples():
            triples = len(data.train) + len(data.valid) + len(data.test)
            entities = len(data.entities)
            return {
                GRAPHS: 1,
                NODES: entities,
                EDGES: triples,
                TYPES: len(data.relations),
                CLASSES: entities,
            }
