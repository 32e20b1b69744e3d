"""One encoder of several: the changes that tunings for different tasks made, weighted and added to the start.

Tunings of one start move its weights in almost orthogonal directions (Ilharco et al., Editing Models with Task
Arithmetic, 2023), so that their sum does most of what each of them does. No step is trained.

    python -m recipes.tuning_merge --kb KB --data DIR --of recipe-linking=0.7 --of recipe-dialogue=0.7 --name general
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
import torch

from adapters.tuning.tuning_files import read_gold_rows
from adapters.tuning.tuning_scores import DevelopmentScore, ScoreOptions
from benchmarks.kilt_sets import data_folder
from kbengine.encoders.deltas import ParameterOptions, decode_deltas
from kbengine.encoders.tuned_encoders import store_tuned
from kbengine.encoders.tuned_info import TunedInfo, tuned_infos
from kbengine.knowledge_base import KnowledgeBase
from recipes.tuning_experiments import EXPERIMENTS
from storage.tuned_files import tuned_weights


def merge(knowledge_base: KnowledgeBase, shares: Mapping[str, float], name: str) -> TunedInfo:
    """Return the stored encoder that the fully tuned ones of the names are together, each with its share."""
    infos = {info.name: info for info in tuned_infos(knowledge_base.path)}
    merged: dict[str, torch.Tensor] = {}
    for of, share in shares.items():
        if of not in infos:
            raise click.UsageError(f"there is no encoder {of!r}, wanted one of {', '.join(sorted(infos)) or '(none)'}")
        if infos[of].parameters != "full":
            raise click.UsageError(f"{of} was tuned as {infos[of].parameters!r}, only full tunings are added here")
        files, data = tuned_weights(knowledge_base.path, of)
        for key, tensor in decode_deltas(data, str(files.weights)).items():
            merged[key] = merged.get(key, torch.zeros_like(tensor)) + share * tensor
    rows: dict[str, int] = {}
    for of in shares:
        rows |= dict(infos[of].report["rows"])
    return store_tuned(
        knowledge_base.path,
        name,
        merged,
        base=knowledge_base.encoder,
        options=ParameterOptions("full"),
        tasks=tuple(dict.fromkeys(task for of in shares for task in infos[of].tasks)),
        report={"loss": "merged", "of": dict(shares), "rows": rows},
    )


@click.command()
@click.option("--kb", type=click.Path(path_type=Path), required=True, help="The knowledge base with the encoders.")
@click.option("--data", type=click.Path(path_type=Path), help="The folder of KILT sets (or KBENGINE_KILT_DATA).")
@click.option("--of", multiple=True, required=True, metavar="NAME=SHARE", help="A tuned encoder and its share.")
@click.option("--name", required=True, help="Of the new encoder.")
@click.option("--dev-rows", type=int, default=40, show_default=True, help="Of each set of the general experiment.")
def main(kb: Path, data: Path | None, of: tuple[str, ...], name: str, dev_rows: int) -> None:
    """Store the encoder and print its development figures as JSON."""
    shares = {each.partition("=")[0]: float(each.partition("=")[2] or 1) for each in of}
    (general,) = (each for each in EXPERIMENTS if each.name == "general")
    files = general.files(data_folder(data), "dev")
    dev = [(file, read_gold_rows(file, limit=dev_rows)) for file in files]
    with KnowledgeBase.open(kb) as knowledge_base:
        merge(knowledge_base, shares, name)
        found = DevelopmentScore(dev, ScoreOptions("mean"))(knowledge_base.searcher(name))
    click.echo(json.dumps({"name": name, "of": shares, "score": found.score, "measures": dict(found.measures)}))


if __name__ == "__main__":
    main()
