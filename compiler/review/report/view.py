"""Views of programs: the text and HTML that the page template prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flintlog.targets.pyspark import view as script
from flintlog.targets.pyspark.emit import Script
from flintlog.targets.pyspark.names import Names
from flintlog.targets.pyspark.python import section
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer, SqlLexer

from ...diagnostics import in_a_line
from ...editor.highlighting import FlintlogLexer
from ...ir import plan
from ...ir.localized import LocalizedRule, located_rule
from ...ir.strata import METHODS
from ...naming import counted
from ...pipeline import Compilation
from ...source import SourceFile, Span
from ..certify import Certificate, certify
from ..explain import explain
from .graph import GraphView, program_graph
from .joblog import LoggedRun, Phase

MOST_RUNS, MOST_BARS = 12, 120
"""How many runs to show, the last ones, and how many rounds, the first ones."""


@dataclass(frozen=True)
class Link:
    """A link; ``href`` is empty if it leads nowhere."""

    text: str
    href: str


@dataclass(frozen=True)
class SourceLine:
    """A line of a file: its number, anchor and highlighted text, with links to what it was made from or becomes."""

    number: int
    anchor: str
    html: Markup
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class SourceView:
    """A file of the program."""

    name: str
    anchor: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class QueryReport:
    """A query of the script; ``spark`` is empty if both engines use the same SQL."""

    comment: str
    constant: Link
    duckdb: Markup
    spark: Markup


@dataclass(frozen=True)
class RuleReport:
    """A rule, and everything compiled from it."""

    anchor: str
    label: str
    place: Link
    text: Markup
    rewritten: Markup
    origin: str
    location: str
    sends: tuple[str, ...]
    parts: tuple[Markup, ...]
    deltas: tuple[tuple[str, str, Markup], ...]
    monomials: tuple[tuple[str, str], ...]
    holds: bool
    queries: tuple[QueryReport, ...]
    script: Link


@dataclass(frozen=True)
class RelationReport:
    """A relation: its declaration, how and why it is cut into buckets, and links to its source and the script."""

    anchor: str
    name: str
    text: Markup
    note: str
    place: Link
    script: Link
    size: str


@dataclass(frozen=True)
class StratumReport:
    """A stratum, in the order of evaluation."""

    anchor: str
    name: str
    kind: str
    relations: tuple[RelationReport, ...]
    rules: tuple[RuleReport, ...]
    queries: tuple[QueryReport, ...]
    script: Link


@dataclass(frozen=True)
class StageReport:
    """A stage."""

    title: str
    strata: tuple[StratumReport, ...]


@dataclass(frozen=True)
class PhaseView:
    """The work of a stratum in a phase of a run; ``bars`` are the heights (0 to 100) and titles of its rounds."""

    stratum: Link
    name: str
    rounds: str
    tuples: str
    seconds: str
    scratch: str
    bars: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class StageRunView:
    """A stage of a run."""

    strata: str
    engine: str
    reason: str
    seconds: str
    phases: tuple[PhaseView, ...]


@dataclass(frozen=True)
class RunView:
    """A run in the log."""

    title: str
    stages: tuple[StageRunView, ...]
    sizes: tuple[tuple[Link, str, str, str], ...]


@dataclass(frozen=True)
class ProgramView:
    """A program, or a process of one."""

    anchor: str
    name: str
    summary: str
    script_name: str
    graph: GraphView
    inputs: tuple[RelationReport, ...]
    stages: tuple[StageReport, ...]
    script: tuple[tuple[SourceLine, ...], ...]
    script_lines: str
    words: str
    warnings: tuple[str, ...]
    runs: tuple[RunView, ...]
    runs_left_out: int


class Sources:
    """The files shown on a page, with the links from and to their lines."""

    def __init__(self, sources: Iterable[SourceFile]) -> None:
        """Number the files."""
        self.sources = tuple(sources)
        self.numbers = {source.name: number for number, source in enumerate(self.sources, 1)}
        #: By file and line number, links to what the line becomes.
        self.links: dict[str, dict[int, list[Link]]] = {}

    def place(self, span: Span) -> Link:
        """Return a link to a source position."""
        number = self.numbers.get(span.file)
        return Link(str(span), f"#source-{number}-{span.line}" if number else "")

    def leads(self, span: Span, link: Link) -> None:
        """Add a link to the line of ``span``."""
        self.links.setdefault(span.file, {}).setdefault(span.line, []).append(link)

    def views(self) -> tuple[SourceView, ...]:
        """Return the views of the files; call it when all links are known."""
        views = []
        for source in self.sources:
            anchor = f"source-{self.numbers[source.name]}"
            lines = code_lines(source.text.rstrip("\n"), FlintlogLexer())
            views.append(SourceView(source.name, anchor, numbered(lines, anchor, self.links.get(source.name, {}))))
        return tuple(views)


class ProgramViewer:
    """Makes the view of a program or, given a ``process``, of one process."""

    def __init__(
        self,
        compilation: Compilation,
        made: Script,
        script_name: str,
        sources: Sources,
        runs: Sequence[LoggedRun] = (),
        process: str = "",
    ) -> None:
        """Index a compiled program and its script."""
        self.compilation, self.made, self.sources, self.runs, self.process = compilation, made, sources, runs, process
        self.script_name = script_name
        self.prefix = f"{anchor_part(process)}." if process else ""
        self.text = made.text.splitlines()
        self.program = compilation.plan.program
        #: Line numbers in the script, by the name of the constant, relation or stratum defined there.
        self.defined: dict[str, int] = {}
        for number, line in enumerate(self.text, 1):
            definition = re.match(r"([A-Z_][A-Z0-9_]*) = |    (\w+) = (?:Relation|Stratum)\(", line)
            if definition:
                self.defined.setdefault(definition[1] or definition[2], number)
        self.script_links: dict[int, list[Link]] = {}
        self.localized: dict[str, LocalizedRule] = {rule.rule.label: rule for rule in compilation.localized.rules}
        self.certificates: dict[str, Certificate] = {c.deltas.rule.label: c for c in certify(compilation.delta)}
        #: The known sizes of relations after the last run; logs omit relations made by the compiler.
        self.sizes = {s.relation: f"{s.tuples:,} tuple{'s' * (s.tuples != 1)}" for s in runs[-1].sizes} if runs else {}

    def anchor(self, kind: str, name: str) -> str:
        """Return the anchor of a named item."""
        return f"{self.prefix}{kind}-{anchor_part(name)}"

    def view(self) -> ProgramView:
        """Return the complete view."""
        compilation = self.compilation
        views = {view.stratum.name: view for view in self.made.view.strata}
        relations = {view.name: view for view in self.relation_views()}
        stages = []
        for number, stage in enumerate(compilation.plan.stages, 1):
            where = "one task per bucket" if stage.bucketed else "gathered in one task"
            strata = tuple(self.stratum(planned, views[planned.stratum.name], relations) for planned in stage.strata)
            stages.append(StageReport(f"Stage {number}, {where}", strata))
        inputs = tuple(relations[r.name] for r in self.program.relations if r.role == "input")
        graph = program_graph(
            compilation.strata,
            lambda kind, name: f"#{self.anchor(kind, name)}",
            self.sizes,
        )
        kept = self.runs[-MOST_RUNS:]
        return ProgramView(
            anchor=f"{self.prefix}program",
            name=self.process,
            summary=self.summary(),
            script_name=self.script_name,
            graph=graph,
            inputs=inputs,
            stages=tuple(stages),
            script=self.script(),
            script_lines=f"{len(self.text):,}",
            words=explain(compilation),
            warnings=tuple(map(in_a_line, compilation.warnings)),
            runs=tuple(map(self.run, kept)),
            runs_left_out=len(self.runs) - len(kept),
        )

    def summary(self) -> str:
        """Return the numbers of rules, relations, inputs and outputs."""
        relations = [r for r in self.program.relations if not r.hidden]
        numbers = {
            "rule": len(self.program.rules),
            "relation": len(relations),
            "input": sum(r.role == "input" for r in relations),
            "output": sum(r.output for r in relations),
        }
        return ", ".join(counted(number, noun) for noun, number in numbers.items())

    # ---- relations and rules ---------------------------------------------------------------------------------------

    def relation_views(self) -> Iterable[RelationReport]:
        """Yield the views of all relations, and link their declarations to them."""
        views = [*self.made.view.inputs, *(view for s in self.made.view.strata for view in s.relations)]
        by_table = {view.relation.table: view for view in views}
        tables = Names.of(self.program).tables
        pivots = {p.relation: p for stage in self.compilation.plan.stages for s in stage.strata for p in s.pivots}
        for relation in self.program.relations:
            anchor = self.anchor("relation", relation.name)
            view = by_table[tables[relation.name]]
            pivot = pivots.get(relation.name)
            note = relation.why
            if pivot is not None:
                column = "" if pivot.column is None else relation.columns[pivot.column].name
                cut = f"cut into buckets of {column}" if column else "gathered"
                note = "; ".join(filter(None, (note, f"{cut}: {pivot.reason}")))
            if not relation.hidden:
                self.sources.leads(relation.span, Link(f"{self.prefix}{relation.name}", f"#{anchor}"))
            size = self.sizes.get(relation.name, "")
            place = self.sources.place(relation.span)
            link = self.script_link(view.variable, Link(relation.name, f"#{anchor}"))
            yield RelationReport(anchor, relation.name, code(str(relation)), note, place, link, size)

    def stratum(
        self,
        planned: plan.StratumPlan,
        view: script.StratumView,
        relations: Mapping[str, RelationReport],
    ) -> StratumReport:
        """Return the view of a stratum with its relations and rules."""
        stratum = planned.stratum
        anchor = self.anchor("stratum", stratum.name)
        return StratumReport(
            anchor=anchor,
            name=stratum.name,
            kind=f"{'recursive' if stratum.recursive else 'not recursive'}: {METHODS[stratum.kind]}",
            relations=tuple(relations[relation.name] for relation in stratum.relations),
            rules=tuple(self.rule(rule_view, rule) for rule_view, rule in zip(view.rules, planned.rules, strict=True)),
            queries=tuple(map(self.query, view.queries)),
            script=self.script_link(view.variable, Link(stratum.name, f"#{anchor}")),
        )

    def rule(self, made: script.RuleView, planned: plan.RulePlan) -> RuleReport:
        """Return the view of a rule, or of facts that are evaluated together."""
        rule = planned.rule
        localized, certificate = self.localized[rule.label], self.certificates[rule.label]
        anchor = self.anchor("rule", rule.label)
        link = Link(f"{self.prefix}{planned.label}", f"#{anchor}")
        for written in planned.rules:
            self.sources.leads(written.span, link)
        shown = rule.text if planned.full.facts else located_rule(rule, self.compilation.localized.relation)
        location = ""
        if localized.location:
            location = f"evaluated at @{localized.location}"
            if localized.sends_head:
                location += f"; the head goes to @{localized.head_location}"
            elif localized.head_location:
                location += ", where the head lives"
        deltas = certificate.deltas
        follows = {delta.position: "follows an earlier stratum" for delta in deltas.arriving}
        follows.update({delta.position: "follows its own stratum, in rounds" for delta in deltas.following})
        return RuleReport(
            anchor=anchor,
            label=planned.label,
            place=self.sources.place(rule.span),
            text=code("\n".join(written.text for written in planned.rules)),
            rewritten=code(shown) if rule.origin or _words(shown) != _words(rule.text) else Markup(""),
            origin=rule.origin,
            location=location,
            sends=tuple(f"{send}, since {send.why}" for send in localized.sends)
            + tuple(f"cannot be brought together with @{place}" for place in localized.broadcast),
            parts=tuple(code(located_rule(part, self.compilation.localized.relation)) for part in localized.parts)
            if localized.sends
            else (),
            deltas=tuple(
                (f"Δ{d.position + 1}", follows[d.position], code(", ".join(map(str, d.body)))) for d in deltas.all
            ),
            monomials=tuple(
                (text, ", ".join(f"Δ{position + 1}" for position in covers) or "nothing")
                for text, covers in certificate.monomials
            ),
            holds=certificate.holds,
            queries=tuple(map(self.query, made.queries)),
            script=self.rule_lines(made, link),
        )

    def query(self, made: script.QueryView) -> QueryReport:
        """Return the view of a query in both dialects."""
        line = self.defined[made.constant]
        constant = Link(made.constant, f"#{self.prefix}script-{line}")
        same = made.sql.duckdb == made.sql.spark
        return QueryReport(made.comment, constant, sql(made.sql.duckdb), Markup("") if same else sql(made.sql.spark))

    # ---- the script ------------------------------------------------------------------------------------------------

    def script_link(self, name: str, back: Link) -> Link:
        """Return a link to the script line that defines a name, and add a link ``back`` to that line."""
        line = self.defined[name]
        self.script_links.setdefault(line, []).append(back)
        return Link(f"line {line:,}", f"#{self.prefix}script-{line}")

    def rule_lines(self, made: script.RuleView, back: Link) -> Link:
        """Return a link to the script lines of a rule, comments included, and add a link ``back`` to the first line."""
        first, last = (self.defined[query.constant] for query in (made.queries[0], made.queries[-1]))
        quoted = f"# {made.quoted[0]}".rstrip()
        while first > 1 and self.text[first - 1].rstrip() != quoted:
            first -= 1
        while last < len(self.text) and self.text[last - 1] not in ('"""', "}"):
            last += 1
        self.script_links.setdefault(first, []).append(back)
        return Link(f"lines {first:,} to {last:,}", f"#{self.prefix}script-{first}")

    def script(self) -> tuple[tuple[SourceLine, ...], ...]:
        """Return the parts of the script specific to the program: its head, and the sections before the runtime."""
        sections = [number for number, line in enumerate(self.text) if line == section("inputs")]
        begin = sections[-1]
        end = next(n for n in range(begin, len(self.text)) if self.text[n].startswith("# ---- the runtime "))
        head = next(number for number, line in enumerate(self.text) if line.startswith("from __future__"))
        return tuple(
            numbered(
                code_lines("\n".join(self.text[first:last]), PythonLexer()),
                f"{self.prefix}script",
                self.script_links,
                first + 1,
            )
            for first, last in ((0, head), (begin, end))
        )

    # ---- runs ------------------------------------------------------------------------------------------------------

    def run(self, run: LoggedRun) -> RunView:
        """Return the view of a run."""
        stages = tuple(
            StageRunView(
                stage.strata, stage.engine, stage.reason, _seconds(stage.seconds), tuple(map(self.phase, stage.phases))
            )
            for stage in run.stages
        )
        names = {relation.name for relation in self.program.relations}
        sizes = tuple(
            (
                Link(size.relation, f"#{self.anchor('relation', size.relation)}" if size.relation in names else ""),
                f"{size.tuples:,}",
                f"+{size.inserted:,}" if size.inserted else "",
                f"−{size.deleted:,}" if size.deleted else "",
            )
            for size in run.sizes
        )
        return RunView(f"batch {run.batch}, commit {run.commit}, {_seconds(run.seconds)}", stages, sizes)

    def phase(self, phase: Phase) -> PhaseView:
        """Return the view of a phase, with its rounds as bars."""
        most = max((done.tuples for done in phase.rounds), default=0) or 1
        bars = tuple(
            (100 * done.tuples / most, f"round {done.number}: {done.tuples:,} tuples, {_seconds(done.seconds)}")
            for done in phase.rounds[:MOST_BARS]
        )
        names = {stratum.name for stratum in self.compilation.strata.strata}
        href = f"#{self.anchor('stratum', phase.stratum)}" if phase.stratum in names else ""
        return PhaseView(
            Link(phase.stratum, href),
            phase.name,
            f"{len(phase.rounds):,}",
            f"{phase.tuples:,}",
            _seconds(phase.seconds),
            phase.scratch,
            bars,
        )


def anchor_part(name: str) -> str:
    """Return a name escaped for an anchor, injectively: only letters, digits, ``_`` and ``-`` stay."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f".{ord(found[0]):x}.", name)


def code(text: str) -> Markup:
    """Return program text with syntax highlighting."""
    return Markup("\n").join(code_lines(text, FlintlogLexer()))


def sql(text: str) -> Markup:
    """Return a query with syntax highlighting."""
    return Markup("\n").join(code_lines(text.strip("\n"), SqlLexer()))


def code_lines(text: str, lexer: Lexer) -> list[Markup]:
    """Return the highlighted lines of a text, each well-formed HTML by itself."""
    lexer.stripnl = lexer.ensurenl = False
    shown = highlight(f"{text}\n", lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in shown.split("\n")][: text.count("\n") + 1]


def numbered(
    lines: Iterable[Markup], anchor: str, links: Mapping[int, Sequence[Link]], first: int = 1
) -> tuple[SourceLine, ...]:
    """Return lines with numbers from ``first`` on, anchors, and the ``links`` of each number."""
    return tuple(
        SourceLine(number, f"{anchor}-{number}", html, tuple(links.get(number, ())))
        for number, html in enumerate(lines, first)
    )


def styles(name: str) -> str:
    """Return the CSS text colours of a Pygments style."""
    formatter = HtmlFormatter(style=name)
    rules = []
    for line in formatter.get_style_defs(".code").splitlines():  # type: ignore[no-untyped-call]
        style = re.match(r"(\.code \.(?!err\b)\w+) \{ (.*?) \}", line)
        color = re.search(r"(?<!-)color: #?\w+", style[2]) if style else None
        if style and color:
            rules.append(f"{style[1]} {{ {color[0]} }}")
    return "\n".join(rules)


def _words(text: str) -> str:
    """Return a rule without label, white space and comments, to tell whether two texts are the same rule."""
    bare = re.sub(r"//.*|/\*.*?\*/|\s+", "", text)
    return re.sub(r"^[\w-]+:(?!-)", "", bare)


def _seconds(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds:,.3f} s" if seconds < 1 else f"{seconds:,.1f} s"
