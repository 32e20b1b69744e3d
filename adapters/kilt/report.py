"""What the command line prints about scores and findings, as text or JSON lines; nothing here prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from adapters.kilt.datasets import Metric
from adapters.kilt.lint import Finding, LintReport
from adapters.kilt.scoring import RankingScores, Scores

_EXAMPLES = 3


def scores_text(scores: Scores, *, metric: Metric = "accuracy") -> str:
    """Return a table of all scores in percent and the count of records by the gate they failed."""
    lines = [f"{scores.n_records} records" + _ignored(scores.n_ignored)]
    for heading, group in (("downstream", scores.downstream), ("KILT", scores.kilt), ("pages", scores.retrieval)):
        lines.append(_row(heading, group))
    lines.extend(_ranking_rows(scores.ranking, scores.ks, scores.rank_keys))
    gates = scores.gates(metric)
    lines.append(
        f"KILT-{metric} by record: {gates['passed']} passed; failed: {gates['answer']} answer, "
        f"{gates['Rprec']} Rprec, {gates['both']} both"
    )
    return "\n".join(lines)


def ranking_text(scores: RankingScores) -> str:
    """Return a table of the retrieval scores in percent."""
    lines = [f"{scores.n_records} records" + _ignored(scores.n_ignored)]
    lines.extend(_ranking_rows(scores.measures, scores.ks, scores.rank_keys))
    return "\n".join(lines)


def record_lines(scores: Scores, *, metric: Metric = "accuracy", failed_only: bool = False) -> Iterator[str]:
    """Yield the per-record report as JSON lines; `failed_gate` is `passed`, `answer`, `Rprec` or `both`."""
    for record in scores.records:
        if not failed_only or record.gate(metric) != "passed":
            yield json.dumps(record.to_json(scores.ks, metric))


def ranking_lines(scores: RankingScores, *, failed_only: bool = False) -> Iterator[str]:
    """Yield the per-record report of retrieval alone as JSON lines; an R-precision below 1 has failed."""
    for record_id, record in scores.records:
        if not failed_only or record.rprec < 1:
            yield json.dumps({"id": record_id, **record.measures(scores.ks)})


def lint_text(report: LintReport, *, examples: int | None = _EXAMPLES) -> str:
    """Findings grouped by problem, the worst first, with `examples` lines of each (None: all), and a verdict."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.severity, finding.problem), []).append(finding)
    counts = report.counts()
    order = list(counts)
    lines: list[str] = []
    for (severity, problem), findings in sorted(groups.items(), key=lambda item: order.index(item[1][0].severity)):
        lines.append(f"{severity}: {problem} ({len(findings)})")
        shown = findings if examples is None else findings[:examples]
        lines.extend(f"  {finding}" for finding in shown)
        if len(shown) < len(findings):
            lines.append(f"  … and {len(findings) - len(shown)} more")
    known = "" if report.n_inputs is None else f" for {report.n_inputs} inputs"
    verdict = "would be rejected" if not report.accepted else "would be accepted"
    summary = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count) or "no findings"
    lines.append(f"{report.file}: {report.n_records} records{known}: {verdict} ({summary})")
    return "\n".join(lines)


def _ranking_rows(measures: Mapping[str, float], ks: Sequence[int], rank_keys: Sequence[str]) -> list[str]:
    rows = [f"ranking by {'+'.join(rank_keys)}: Rprec {_percent(measures['Rprec'])}"]
    names = ("precision", "recall", "success_rate", "answer_in_context", "entity_in_context")
    width = max(len(name) for name in names)
    rows.append(" " * width + "".join(f"{'@' + str(k):>9}" for k in ks))
    for name in names:
        cells = (measures.get(f"{name}@{k}") for k in ks)
        rows.append(f"{name:<{width}}" + "".join(f"{'–' if cell is None else _percent(cell):>9}" for cell in cells))
    return rows


def _row(heading: str, values: Mapping[str, float]) -> str:
    return f"{heading + ':':<12}" + "  ".join(f"{name} {_percent(value)}" for name, value in values.items())


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _ignored(count: int) -> str:
    return f" ({count} predictions for other ids ignored)" if count else ""
