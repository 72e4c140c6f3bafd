"""Tables and pictures of what was measured, for a terminal and for ``docs/performance.md``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from results import Batch, Distributed, Result, Scaled, Strategy
from rich.table import Table

WORDS = ("workload", "step", "closure", "program", "output", "network")
"""How far a heading's column is set to the right: all but those of words."""

COLORS = {
    "here": "#3b9c7a",
    "warm": "#8fd0b5",
    "in session": "#1b6ca8",
    "duckdb": "#e0a100",
    "souffle": "#7a9b3a",
    "by hand": "#a83232",
}
STRATEGY_COLORS = {"incremental": "#1b6ca8", "recompute": "#a83232", "auto": "#222222"}


@dataclass
class Measured:
    """All results of one or more invocations."""

    machine: dict[str, Any] = field(default_factory=dict)
    comparison: list[Result] = field(default_factory=list)
    scaling: list[Scaled] = field(default_factory=list)
    strategies: list[Strategy] = field(default_factory=list)
    distributed: list[Distributed] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    database: list[Result] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """A table; ``name`` says where in the document it stands."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def rich(self) -> Table:
        """For a terminal."""
        made = Table(title=self.title, title_justify="left", title_style="bold")
        for heading in self.headings:
            made.add_column(heading, justify="left" if heading in WORDS else "right")
        for number, row in enumerate(self.rows):
            if number and row[0]:
                made.add_section()
            made.add_row(*row)
        return made

    def markdown(self) -> str:
        """For a document."""
        rule = ["---" if heading in WORDS else "---:" for heading in self.headings]
        lines = [self.headings, rule, *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def grids(measured: Measured, titles: dict[str, str]) -> list[Grid]:
    """All tables that there are results for."""
    known = [one for one in measured.comparison if one.contender != "compiler"]
    compiler = [one for one in measured.comparison if one.contender == "compiler"]
    made = []
    if known:
        processes = processes_grid(known, titles)
        made += [processes] if processes.rows else []
        made += [workloads_grid(known, titles), memory_grid(known, titles), parts_grid(known, titles)]
    if measured.database:
        made.append(database_grid(measured.database, titles))
    if measured.scaling:
        made.append(scaling_grid(measured.scaling))
    if measured.strategies:
        made.append(strategies_grid(measured.strategies))
    if measured.batches:
        made.append(batches_grid(measured.batches))
    if measured.distributed:
        made.append(distributed_grid(measured.distributed))
    if compiler:
        rows = [(one.workload, one.step, f"{one.seconds:.2f}", f"{one.peak_mb:,.0f}") for one in compiler]
        made.append(Grid("compiler", "The compiler", ("program", "output", "seconds", "peak MB"), rows))
    return made


def workloads_grid(results: Sequence[Result], titles: dict[str, str]) -> Grid:
    """Seconds of all contenders for every step, and ratios of the job's, in a warm session, to theirs.

    A contender that starts from scratch without being measured after a step takes as long as it took for ``init``.
    """
    headings = (
        "workload",
        "step",
        "rows",
        "spark-submit",
        "its job",
        "in session",
        "DuckDB",
        "Soufflé",
        "by hand",
        "to DuckDB",
        "to Soufflé",
        "to by hand",
        "to own init",
    )
    rows = []
    for workload, step, found in by_step(results):
        inits = {one.contender: one for one in results if one.workload == workload and one.step == "init"}
        ours = found.get("in session")
        hand = inits.get("by hand")
        rows.append(
            (
                titles.get(workload, workload) if step == "init" else "",
                step,
                f"{max(one.rows for one in found.values()):,}",
                shown(found.get("flintlog"), whole=True),
                shown(found.get("flintlog")),
                shown(ours),
                shown(found.get("duckdb")),
                shown(found.get("souffle")),
                shown(found.get("by hand")),
                ratio(ours, found.get("duckdb")),
                ratio(ours, found.get("souffle")),
                ratio(ours, hand),
                ratio(ours, inits.get("in session")) if step != "init" else "",
            )
        )
    return Grid("workloads", "Seconds, and ratios of the job in a warm session to the others", headings, rows)


MANY_ROWS = 10_000_000
"""Views of more rows have the strictest aims."""


def aim(step: str, rows: int, whole: float) -> tuple[str, float, str, float]:
    """Return, for a step that leaves ``rows`` rows and takes DuckDB ``whole`` seconds from scratch, how long a process
    of its own may take, as text and in seconds, and the same for a warm process (infinite if that has no aim)."""
    if step == "init":
        return "1.5 x or 2 s", max(1.5 * whole, 2.0), "", math.inf
    if "0.01" not in step:
        return "1.2 x or 1 s", max(1.2 * whole, 1.0), "", math.inf
    if rows > MANY_ROWS:
        return "0.4 x", 0.4 * whole, "0.2 x", 0.2 * whole
    return "1 x or 0.8 s", max(whole, 0.8), "", math.inf


def processes_grid(results: Sequence[Result], titles: dict[str, str]) -> Grid:
    """Seconds of whole processes without Spark, from their start to their end, and the aims for them."""
    headings = ("workload", "step", "rows", "here", "warm", "DuckDB", "to DuckDB", "aim", "warm to DuckDB", "aim, warm")
    rows = []
    for workload, step, found in by_step(results):
        here, warm, scratch = (found.get(name) for name in ("here", "warm", "duckdb"))
        if not (here and warm and scratch):
            continue
        cells: list[str] = []
        texts = aim(step, scratch.rows, scratch.seconds)
        for one, text, most in ((here, *texts[:2]), (warm, *texts[2:])):
            missed = " (missed)" if one.seconds > most else ""
            cells += [f"{one.seconds / scratch.seconds:.2f} x", f"{text}{missed}"]
        seconds = [f"{one.seconds:.2f}" for one in (here, warm, scratch)]
        rows.append(
            (titles.get(workload, workload) if step == "init" else "", step, f"{scratch.rows:,}", *seconds, *cells)
        )
    return Grid("processes", "Seconds of whole processes without Spark", headings, rows)


STORED = ("here", "database", "installed", "warm", "embedded", "duckdb")
"""The contenders beside each other in the table of states in one SQLite file."""


def database_grid(results: Sequence[Result], titles: dict[str, str]) -> Grid:
    """Seconds of the processor and on the clock with states in one SQLite file and others, and what the ones take of
    the processor for one that others take."""
    compared = (
        *(("database", "here"), ("installed", "here"), ("database", "duckdb")),
        *(("embedded", "warm"), ("embedded", "duckdb")),
    )
    ratios = tuple(f"{one} to {other}".replace("duckdb", "DuckDB") for one, other in compared)
    headings = ("workload", "step", "rows", *STORED[:-1], "DuckDB", *ratios)
    rows = []
    for workload, step, found in by_step(results):
        spent = {name: one.processor for name, one in found.items() if one.processor}
        cells = [f"{exactly(spent[name])} / {exactly(clock(found[name]))}" if name in spent else "" for name in STORED]
        for one, other in compared:
            times = spent[one] / spent[other] if one in spent and other in spent else 0.0
            cells.append(f"{times:{'.0f' if times >= 10 else '.2g'}} x" if times else "")
        most = max(one.rows for one in found.values())
        rows.append((titles.get(workload, workload) if step == "init" else "", step, f"{most:,}", *cells))
    return Grid("database", "Seconds of the processor / on the clock", headings, rows)


def clock(result: Result) -> float:
    """The seconds on the clock, of DuckDB without the checksums of its answers."""
    return result.job_seconds if result.contender == "duckdb" and result.job_seconds else result.seconds


def exactly(seconds: float) -> str:
    """Seconds, with milliseconds if they are few."""
    return f"{seconds:.{2 if seconds >= 0.3 else 3}f}"


def memory_grid(results: Sequence[Result], titles: dict[str, str]) -> Grid:
    """Peak memory of the process trees."""
    columns = {
        "here": "here",
        "warm": "warm",
        "flintlog": "spark-submit",
        "in session": "in session",
        "duckdb": "DuckDB",
        "souffle": "Soufflé",
        "by hand": "by hand",
    }
    rows = []
    for workload, step, found in by_step(results):
        cells = [f"{found[name].peak_mb:,.0f}" if name in found else "" for name in columns]
        rows.append((titles.get(workload, workload) if step == "init" else "", step, *cells))
    return Grid("memory", "Peak memory in MB", ("workload", "step", *columns.values()), rows)


PARTS = ("staging", "spark", "reading", "rules", "writing")


def parts_grid(results: Sequence[Result], titles: dict[str, str]) -> Grid:
    """Where the seconds of the job in a warm session go."""
    rows = []
    for workload, step, found in by_step(results):
        one = found.get("in session")
        if one is None or one.parts is None:
            continue
        spent = [one.parts.get(part, 0.0) for part in PARTS]
        cells = [f"{seconds:.2f}" for seconds in (one.seconds, *spent, one.seconds - sum(spent))]
        rows.append((titles.get(workload, workload) if step == "init" else "", step, *cells))
    headings = ("workload", "step", "seconds", "staging", "Spark", "reading", "rules", "writing", "rest")
    return Grid("parts", "Where the seconds go", headings, rows)


def by_step(results: Sequence[Result]) -> Iterable[tuple[str, str, dict[str, Result]]]:
    """The results of each step of each workload, by contender."""
    for workload in dict.fromkeys(one.workload for one in results):
        mine = [one for one in results if one.workload == workload]
        for step in dict.fromkeys(one.step for one in mine):
            yield workload, step, {one.contender: one for one in mine if one.step == step}


def scaling_grid(results: Sequence[Scaled]) -> Grid:
    """The median batch of each size and contender, and how much more it takes than that of the smallest closure of its
    kind."""
    contenders = list(dict.fromkeys(one.contender for one in results))
    inits = [f"init, {contenders[0]}"] if contenders else []
    headings: tuple[str, ...] = ("closure", "edges", "rows", "changes", *inits)
    for name in contenders:
        headings += (name, "to the smallest")
    rows = []
    smallest: dict[tuple[str, str], Scaled] = {}
    for one in results:
        if one.contender != contenders[0]:
            continue
        first = (one.series, one.contender) not in smallest
        cells = [f"{one.init_seconds:.2f}"]
        for name in contenders:
            mine = [m for m in results if (m.series, m.edges, m.contender) == (one.series, one.edges, name)]
            for m in mine:
                least = smallest.setdefault((m.series, name), m)
                cells += [f"{median(m.seconds):.2f}", f"{median(m.seconds) / median(least.seconds):.1f} x"]
            cells += ["", ""] * (not mine)
        least = smallest[one.series, one.contender]
        label = one.series if first else ""
        rows.append(
            (label, f"{one.edges:,}", f"{one.rows:,}", f"{one.changes:,}", *cells, f"{one.rows / least.rows:.1f} x")
        )
    title = "Batches of the same number of changes on small and large states"
    return Grid("scaling", title, (*headings, "rows to the smallest"), rows)


def strategies_grid(results: Sequence[Strategy]) -> Grid:
    """Seconds of every strategy for each share of the rows that a batch changes."""
    names = list(dict.fromkeys(one.strategy for one in results))
    rows = []
    for workload in dict.fromkeys(one.workload for one in results):
        mine = [one for one in results if one.workload == workload]
        for number, share in enumerate(dict.fromkeys(one.share for one in mine)):
            seconds = {one.strategy: one for one in mine if one.share == share}
            changes = f"{next(iter(seconds.values())).changes:,}"
            cells = [f"{seconds[name].seconds:.2f}" if name in seconds else "" for name in names]
            rows.append(("" if number else workload, f"{100 * share:.2g} %", changes, *cells))
    return Grid("strategies", "Seconds of a batch by strategy", ("workload", "share", "changes", *names), rows)


BATCH_WAYS = ("queries, cold", "matrices, cold", "queries, warm", "matrices, warm")


def batches_grid(results: Sequence[Batch]) -> Grid:
    """Seconds of batches of all sizes by queries and with matrices, and ratios to DuckDB from scratch."""
    scratch = {"duckdb": "DuckDB", **({"souffle": "Soufflé"} if any(r.contender == "souffle" for r in results) else {})}
    rows = []
    for workload in dict.fromkeys(one.workload for one in results):
        mine = [one for one in results if one.workload == workload]
        for number, step in enumerate(dict.fromkeys(one.step for one in mine)):
            found = {one.contender: one for one in mine if one.step == step}
            seconds = [f"{found[name].seconds:.2f}" if name in found else "" for name in (*scratch, *BATCH_WAYS)]
            to = [f"{found[name].seconds / found['duckdb'].seconds:.2f} x" for name in BATCH_WAYS if "matr" in name]
            peak = f"{found['matrices, cold'].peak_mb:,.0f}"
            changes = f"{found['duckdb'].changes:,}" if found["duckdb"].changes else ""
            rows.append(("" if number else workload, step, changes, *seconds, *to, peak))
    ratios = ("matrices, cold, to DuckDB", "matrices, warm, to DuckDB", "peak MB, matrices, cold")
    headings = ("workload", "step", "changes", *scratch.values(), *BATCH_WAYS, *ratios)
    return Grid("batches", "Seconds of batches by queries and with matrices", headings, rows)


def distributed_grid(results: Sequence[Distributed]) -> Grid:
    """What each step of a job in distributed rounds took."""
    headings = ("workload", "step", "rows", "changed", "rounds", "seconds", "its job", "heap MB", "peak MB")
    rows = [
        (
            one.workload if not number or results[number - 1].workload != one.workload else "",
            one.step,
            f"{one.rows:,}",
            f"{one.changed:,}",
            f"{one.rounds}",
            f"{one.seconds:.0f}",
            f"{one.job_seconds:.0f}",
            f"{one.heap_mb:,}",
            f"{one.peak_mb:,.0f}",
        )
        for number, one in enumerate(results)
    ]
    return Grid("rounds", "Distributed rounds in a fixed memory", headings, rows)


def shown(result: Result | None, whole: bool = False) -> str:
    """The seconds of a contender's own work, or of its whole process."""
    if result is None:
        return ""
    seconds = result.seconds if whole or result.job_seconds is None else result.job_seconds
    return f"over {seconds:.0f}" if result.ended else f"{seconds:.2f}"


def ratio(one: Result | None, other: Result | None) -> str:
    """How many times the second's seconds the first takes."""
    if one is None or other is None or one.job_seconds is None or other.job_seconds is None:
        return ""
    factor = one.job_seconds / other.job_seconds
    return f"{'under ' if other.ended else ''}{factor:.{2 if factor >= 0.095 else 3}f} x"


def write_document(path: Path, tables: Sequence[Grid]) -> None:
    """Put each table between its marks ``<!-- bench:begin NAME -->`` and ``<!-- bench:end NAME -->``."""
    text = path.read_text(encoding="utf-8")
    for grid in tables:
        begin, end = f"<!-- bench:begin {grid.name} -->", f"<!-- bench:end {grid.name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{path} has to have one place for the table {grid.name}")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{grid.markdown()}\n\n{end}{rest.split(end)[1]}"
    path.write_text(text, encoding="utf-8")


def draw(measured: Measured, titles: dict[str, str], folder: Path) -> list[Path]:
    """Draw what there are results for as SVG; returns the files. Nothing if Matplotlib is not installed."""
    if not ready_to_draw():
        return []
    files = []
    known = [one for one in measured.comparison if one.contender in COLORS]
    if known:
        files.append(draw_workloads(known, titles, folder / "performance-workloads.svg"))
    if measured.scaling:
        files.append(draw_scaling(measured.scaling, folder / "performance-scaling.svg"))
    if measured.strategies:
        files.append(draw_strategies(measured.strategies, folder / "performance-strategies.svg"))
    if measured.batches:
        files.append(draw_batches(measured.batches, folder / "performance-matrices.svg"))
    return files


def ready_to_draw() -> bool:
    """Whether Matplotlib is installed; it draws SVG from here on, the same file from the same numbers."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "flintlog", "svg.fonttype": "none", "font.size": 9})
    return True


def draw_workloads(results: Sequence[Result], titles: dict[str, str], path: Path) -> Path:
    """A panel per workload, a group of bars per step, a bar per contender; seconds on a logarithmic scale."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(one.workload for one in results))
    rows = (len(names) + 2) // 3
    figure, axes = pyplot.subplots(rows, 3, figsize=(12, 3.2 * rows), squeeze=False, sharey=True, layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    contenders = [name for name in COLORS if any(one.contender == name for one in results)]
    for axis, name in zip(axes.flat, names, strict=False):
        mine = [one for one in results if one.workload == name]
        steps = list(dict.fromkeys(one.step for one in mine))
        for place, contender in enumerate(contenders):
            bars = [one for one in mine if one.contender == contender]
            places = [steps.index(one.step) + 0.8 * (place + 0.5) / len(contenders) - 0.4 for one in bars]
            seconds = [one.job_seconds or one.seconds for one in bars]
            drawn = axis.bar(places, seconds, 0.75 / len(contenders), color=COLORS[contender], label=contender)
            labels = [
                f"> {value:.0f}" if one.ended else f"{value:.2g}" for one, value in zip(bars, seconds, strict=True)
            ]
            axis.bar_label(drawn, labels=labels, fontsize=7)
        axis.set_yscale("log")
        axis.set_xlim(-0.5, len(steps) - 0.5)
        axis.set_xticks(range(len(steps)), steps)
        axis.set_title(titles.get(name, name), fontsize=9)
        axis.yaxis.set_tick_params(labelleft=True)
        axis.set_ylabel("seconds")
    axes.flat[0].set_ylim(bottom=0.1)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(contenders))
    return save(figure, path)


def draw_scaling(results: Sequence[Scaled], path: Path) -> Path:
    """The median batch over the rows of the closure, both on logarithmic scales, a line per series and contender."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4), layout="constrained")
    styles = dict(zip(dict.fromkeys(one.contender for one in results), ("o-", "o--", "o:"), strict=False))
    for series in dict.fromkeys(one.series for one in results):
        color = None
        for contender, style in styles.items():
            mine = [one for one in results if (one.series, one.contender) == (series, contender)]
            (line,) = axis.plot(
                [one.rows for one in mine],
                [median(one.seconds) for one in mine],
                style,
                color=color,
                label=f"{series}, {contender}",
            )
            color = line.get_color()
    axis.set(xscale="log", yscale="log", xlabel="rows of the closure", ylabel="seconds")
    axis.legend()
    return save(figure, path)


def draw_strategies(results: Sequence[Strategy], path: Path) -> Path:
    """A panel per workload: seconds over the share of the rows that a batch changes, a curve per strategy."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(one.workload for one in results))
    figure, axes = pyplot.subplots(1, len(names), figsize=(4.2 * len(names), 3.8), squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=True):
        for strategy, color in STRATEGY_COLORS.items():
            mine = [one for one in results if one.workload == name and one.strategy == strategy]
            style = {"linestyle": "none", "marker": "x"} if strategy == "auto" else {"marker": "o", "markersize": 3}
            axis.plot(
                [100 * one.share for one in mine], [one.seconds for one in mine], color=color, label=strategy, **style
            )
        axis.set(xscale="log", yscale="log", xlabel="percent of the rows that a batch changes", ylabel="seconds")
        axis.set_title(name, fontsize=9)
        axis.legend()
    return save(figure, path)


BATCH_STYLES = {
    "duckdb": {"color": "#e0a100", "linestyle": "-"},
    "souffle": {"color": "#7a9b3a", "linestyle": "-"},
    "queries, cold": {"color": "#1b6ca8", "linestyle": "-"},
    "queries, warm": {"color": "#1b6ca8", "linestyle": "--"},
    "matrices, cold": {"color": "#a83232", "linestyle": "-"},
    "matrices, warm": {"color": "#a83232", "linestyle": "--"},
}


def draw_batches(results: Sequence[Batch], path: Path) -> Path:
    """A panel per workload: seconds over the number of changes of a batch, a curve per contender."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(one.workload for one in results))
    figure, axes = pyplot.subplots(1, len(names), figsize=(4.2 * len(names), 3.8), squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=True):
        for contender, style in BATCH_STYLES.items():
            mine = [one for one in results if (one.workload, one.contender) == (name, contender) and one.changes]
            if mine:
                points = [[one.changes for one in mine], [one.seconds for one in mine]]
                axis.plot(*points, label=contender, marker="o", markersize=3, **style)
        axis.set(xscale="log", yscale="log", xlabel="changes in a batch", ylabel="seconds")
        axis.set_title(name, fontsize=9)
        axis.legend(fontsize=7)
    return save(figure, path)


def save(figure: Any, path: Path) -> Path:
    """Write a figure without a date."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
    return path
