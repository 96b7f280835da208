"""Run the rule benches and print their ratios. ``bench/rules.md`` says how to read them."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from measure import Target
from rules import changes, memory, workloads
from rules.arena import Score, apart, compete
from rules.engine import ENGINES, HEAD_START, LACE, engine_module
from rules.workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is run."""

    rounds: int
    small: int
    large: int
    grants: int
    candidates: tuple[int, int]
    links: int
    change_rounds: int


FULL: Final = Effort(
    rounds=8,
    small=10_000,
    large=100_000,
    grants=10_000,
    candidates=(2_000, 20_000),
    links=100_000,
    change_rounds=6,
)
QUICK: Final = Effort(
    rounds=2,
    small=2_000,
    large=10_000,
    grants=4_000,
    candidates=(1_000, 10_000),
    links=10_000,
    change_rounds=3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A ratio that has a target."""

    name: str
    ratio: float
    target: Target
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.ratio <= self.target.ratio


@dataclass(slots=True)
class Report:
    """Everything that was measured."""

    tables: dict[str, list[Score]] = field(default_factory=dict)
    costs: changes.Costs | None = None
    memory: memory.Memory | None = None
    checks: list[Check] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def main() -> None:
    options = _parse_arguments()
    effort = QUICK if options.quick else FULL
    report = Report()
    engines, versions = _find_engines()
    print("\n".join(f"{name}: {version}" for name, version in versions.items()))
    for name in options.only or BENCHES:
        BENCHES[name](effort, engines, report)
    _print_checks(report, quick=options.quick)
    if options.json:
        text = json.dumps(_as_data(report, versions, quick=options.quick), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the rules of lace beside other engines.")
    parser.add_argument("--quick", action="store_true", help="small and few: a hint, no measure")
    parser.add_argument(
        "--only", action="append", choices=BENCHES, metavar="NAME",
        help=f"run only this one; may be repeated: {', '.join(BENCHES)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    return parser.parse_args()


def _find_engines() -> tuple[list[str], dict[str, str]]:
    """Return the engines that can run, and the version of each or what is missing."""
    versions: dict[str, str] = {}
    for name in ENGINES:
        # In a process of its own: a library that is loaded here would be forked with its threads.
        try:
            versions[name] = apart(partial(_version, name))
        except RuntimeError as error:
            versions[name] = f"not run: {error}"
    return [n for n, version in versions.items() if not version.startswith("not run")], versions


def _version(name: str) -> str:
    return engine_module(name).version()


# --- the benches ---


def _notes(effort: Effort, engines: Sequence[str], report: Report) -> None:
    for count in (effort.small, effort.large):
        name = f"W1 notes, {count} records"
        scores = _race(name, partial(workloads.notes, count), effort.rounds, engines, report)
    _against_fastest(name, scores, report)


def _delegation(effort: Effort, engines: Sequence[str], report: Report) -> None:
    for depth in (20, 200):
        name = f"W2 delegation, depth {depth}"
        make = partial(workloads.delegation, effort.grants, depth)
        scores = _race(name, make, effort.rounds, engines, report)
    _against_fastest(name, scores, report)


def _revocation(effort: Effort, engines: Sequence[str], report: Report) -> None:
    name = f"W3 revocation, {effort.large} records"
    make = partial(workloads.revocation, effort.large)
    _race(name, make, min(effort.rounds, 4), engines, report)


def _newest(effort: Effort, engines: Sequence[str], report: Report) -> None:
    totals = []
    for count in effort.candidates:
        name = f"W4 newest 100 of {count}"
        make = partial(workloads.newest, count)
        scores = _race(name, make, effort.rounds, engines, report)
        totals.append(_score_of(LACE, scores).evaluate)
    fewer, more = effort.candidates
    report.checks.append(
        Check(
            name=f"W4 evaluation, {more} candidates over {fewer}",
            ratio=totals[1] / totals[0],
            target=Target(sign="<=", ratio=15),
        )
    )


def _support(effort: Effort, engines: Sequence[str], report: Report) -> None:
    chains = effort.links // 1000
    for name, make in (
        ("W5 support, chains of 1000", partial(workloads.support_chains, effort.links, chains)),
        ("W5 support, tree", partial(workloads.support_tree, effort.links)),
    ):
        _against_fastest(name, _race(name, make, effort.rounds, engines, report), report)


def _changes(effort: Effort, _engines: Sequence[str], report: Report) -> None:
    report.costs = costs = apart(partial(changes.measure, effort.large, effort.change_rounds))
    print(f"\nW6 changes at {effort.large} records, as shares of a full evaluation")
    rows = [("change", "share", "undone", "derived facts changed")]
    for cost in costs.changes:
        rows.append(
            (
                cost.delta.name,
                _share(cost.seconds, costs.full_seconds),
                _share(cost.undo_seconds, costs.full_seconds),
                str(cost.changed),
            )
        )
        if cost.delta.target is not None:
            report.checks.append(
                Check(
                    name=f"W6 {cost.delta.name} over full evaluation",
                    ratio=cost.seconds / costs.full_seconds,
                    target=Target(sign="<=", ratio=cost.delta.target),
                )
            )
    print(_table(rows))


def _memory(effort: Effort, _engines: Sequence[str], report: Report) -> None:
    report.memory = held = apart(lambda: memory.measure(workloads.notes(effort.large)))
    print(f"\nMemory of W1, {effort.large} records, bytes for each base fact that is looked at")
    per_fact = [
        ("evaluation", held.evaluation / held.facts),
        ("at its peak", held.peak / held.facts),
        ("ready for changes", held.maintained / held.facts),
        ("source, besides the rows", held.source / held.facts),
    ]
    print(_table([(name, f"{size:.0f}") for name, size in per_fact]))
    report.checks.append(
        Check(
            name="memory of the evaluation",
            ratio=held.evaluation / held.facts,
            target=Target(sign="<=", ratio=100),
            unit=" bytes",
        )
    )


BENCHES: Final[dict[str, Callable[[Effort, Sequence[str], Report], None]]] = {
    "notes": _notes,
    "delegation": _delegation,
    "revocation": _revocation,
    "newest": _newest,
    "support": _support,
    "changes": _changes,
    "memory": _memory,
}


def _race(
    name: str,
    make: Callable[[], Workload],
    rounds: int,
    engines: Sequence[str],
    report: Report,
) -> list[Score]:
    scores: list[Score] = apart(partial(compete, make, engines, rounds))
    lace = _score_of(LACE, scores)
    if lace.reason:
        raise RuntimeError(f"{name}: {lace.reason}")
    report.tables[name] = scores
    print(f"\n{name}: CPU ms, and time over the time of lace")
    print(_table(_score_rows(scores, lace)))
    for score in scores:
        if score.reason:
            print(f"{score.engine} left out: {score.reason}")
    return scores


def _against_fastest(name: str, scores: Sequence[Score], report: Report) -> None:
    """Compare with the best that any other engine does with the same lists."""
    others = [s for s in scores if s.engine not in {LACE, *HEAD_START} and not s.reason]
    if not others:
        report.remarks.append(f"{name}: nothing to compare with")
        return
    fastest = min(others, key=lambda score: score.together)
    lace = _score_of(LACE, scores)
    report.checks.append(
        Check(
            name=f"{name}: load + evaluation over {fastest.engine}",
            ratio=lace.together / fastest.together,
            target=Target(sign="<=", ratio=1),
        )
    )
    quickest = min(others, key=lambda score: score.evaluate)
    ratio = lace.evaluate / quickest.evaluate
    report.remarks.append(f"{name}: evaluation alone is {ratio:.2f}x that of {quickest.engine}")
    for score in scores:
        if score.engine in HEAD_START and not score.reason:
            ratio = lace.together / score.together
            report.remarks.append(f"{name}: all is {ratio:.2f}x that of {score.engine}")


def _score_of(engine: str, scores: Iterable[Score]) -> Score:
    return next(score for score in scores if score.engine == engine)


# --- showing ---


def _score_rows(scores: Sequence[Score], lace: Score) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("engine", "load", "evaluate", "together", "x", "x", "x")]
    for score in scores:
        if not score.reason:
            times = (score.load, score.evaluate, score.together)
            floor = (lace.load, lace.evaluate, lace.together)
            ratios = (f"{a / b:.2f}" if b else "-" for a, b in zip(times, floor, strict=True))
            rows.append((score.engine, *(f"{t * 1000:.1f}" for t in times), *ratios))
    return rows


def _share(part: float, whole: float) -> str:
    return f"1/{whole / part:,.0f}" if part * 10 < whole else f"{part / whole:.2f}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _print_checks(report: Report, *, quick: bool) -> None:
    if report.checks:
        print("\nTargets" + (" (--quick: sizes and rounds are too small to decide)" * quick))
        rows = [("what", "measured", "target", "met")]
        rows += [
            (c.name, f"{c.ratio:.3g}{c.unit}", str(c.target), "yes" if c.met else "NO")
            for c in report.checks
        ]
        print(_table(rows))
    for remark in report.remarks:
        print(f"  {remark}")


def _as_data(report: Report, versions: dict[str, str], *, quick: bool) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "quick": quick,
        "engines": versions,
        "workloads": {
            name: {
                score.engine: {
                    "load": _finite(score.load),
                    "evaluate": _finite(score.evaluate),
                    "together": _finite(score.together),
                    "rows": score.rows,
                    "left_out": score.reason or None,
                }
                for score in scores
            }
            for name, scores in report.tables.items()
        },
        "changes": {
            cost.delta.name: cost.seconds / report.costs.full_seconds
            for cost in report.costs.changes
        }
        if report.costs
        else None,
        "bytes_per_fact": report.memory.evaluation / report.memory.facts if report.memory else None,
        "targets": [
            {"name": c.name, "ratio": c.ratio, "target": str(c.target), "met": c.met}
            for c in report.checks
        ],
        "remarks": report.remarks,
    }


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
