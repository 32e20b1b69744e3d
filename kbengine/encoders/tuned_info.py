"""What is known of an encoder tuned for a knowledge base without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kbengine.errors import CorruptError
from storage.tuned_files import TunedFiles, list_tuned, read_tuned


@dataclass(frozen=True)
class TunedInfo:
    """A stored encoder: what it is called, what it was tuned from and how that went.

    Attributes:
        name: Its name.
        fingerprint: What answers made with it carry.
        base: Name of the encoder it was tuned from.
        base_fingerprint: That one's fingerprint.
        passage_fingerprint: Of the vectors it was tuned on.
        parameters: "heads", "full" or "lora".
        scale: LoRA's scale.
        tasks: What it was tuned for.
        n_bytes: Size of its weights.
        created_at: UTC, ISO 8601.
        report: How tuning went: loss, rows, scores before and after.
    """

    name: str
    fingerprint: str
    base: str
    base_fingerprint: str
    passage_fingerprint: str
    parameters: str
    scale: float
    tasks: tuple[str, ...]
    n_bytes: int
    created_at: str
    report: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_files(cls, files: TunedFiles) -> Self:
        """Return what the files say.

        Raises:
            CorruptError: they are not what was written.
        """
        try:
            values = dict(files.facts)
            values["tasks"] = tuple(values["tasks"])
            return cls(name=files.name, n_bytes=files.n_bytes, **values)
        except (KeyError, TypeError) as error:
            raise CorruptError(
                f"{files.weights.parent} is of no encoder that this kbengine knows ({error}); tune it again or delete "
                "it"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"tasks": list(self.tasks), "report": dict(self.report)}

    def card(self) -> str:
        """Return a model card as Markdown: what it was tuned from, for what, on which rows, and what came of it."""
        report = self.report
        rows = ", ".join(f"{name} ({count:,})" for name, count in dict(report.get("rows", {})).items())
        lines = [
            f"# Model card: {self.name}",
            "",
            f"The query side of `{self.base}` (fingerprint {self.base_fingerprint[:12]}), tuned on a knowledge base",
            f"whose vectors stay as they are (passage fingerprint {self.passage_fingerprint[:12]}). {self.created_at}.",
            "",
            f"- tasks: {', '.join(self.tasks)}",
            f"- loss: {report.get('loss')}; what was tuned: {self.parameters}",
            f"- rows: {rows}",
            f"- steps: {report.get('steps')}, the best of them {report.get('best_step')}",
            "",
            "## Development figures (%)",
            "",
            "| set, signals, measure | before | after |",
            "| --- | --- | --- |",
        ]
        after = dict(report.get("after", {}))
        for name, value in sorted(dict(report.get("before", {})).items()):
            lines.append(f"| {name} | {value:.1f} | {after.get(name, value):.1f} |")
        return "\n".join([*lines, "", "Everything else is as in the card of its start.", ""])


def tuned_infos(path: Path) -> list[TunedInfo]:
    """Return what is known of each tuned encoder of a knowledge base, by name.

    Raises:
        CorruptError: a record is not what was written.
    """
    return [TunedInfo.of_files(read_tuned(path, name)) for name in list_tuned(path)]
