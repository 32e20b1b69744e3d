"""The model card of an encoder that was tuned for a knowledge base and written as a directory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbengine.encoders.tuned_encoders import TunedInfo


def tuned_card(info: TunedInfo) -> str:
    """Return the card as Markdown: what it was tuned from, for what, on which rows, and what came of it."""
    report = info.report
    rows = ", ".join(f"{name} ({count:,})" for name, count in dict(report.get("rows", {})).items())
    lines = [
        f"# Model card: {info.name}",
        "",
        f"The query side of `{info.base}` (fingerprint {info.base_fingerprint[:12]}), tuned on a knowledge base whose",
        f"vectors stay as they are (passage fingerprint {info.passage_fingerprint[:12]}). {info.created_at}.",
        "",
        f"- tasks: {', '.join(info.tasks)}",
        f"- loss: {report.get('loss')}; what was tuned: {info.parameters}",
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
