"""Diagnostics: codes, severities, and their text form with carets.

Every problem in a program becomes a :class:`Diagnostic`. Passes report to :class:`Diagnostics` and continue as far as
they can, so that one run shows all problems; :meth:`Diagnostics.check` stops the compiler between passes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..source import SourceFile, Span

CODES: dict[str, str] = {
    # Syntax
    "E0101": "The text does not follow the grammar.",
    "E0102": "A clause has no dot at its end.",
    "E0103": "A dot inside a line does not end a clause.",
    "E0104": "A parenthesis is unmatched.",
    "E0105": "A string is not closed.",
    "E0106": "A comment is not closed.",
    "E0107": "A character or operator is not part of the language.",
    "E0108": "A string has an unknown escape.",
    "E0109": "A date or a timestamp is not valid.",
    "E0110": "A declaration is not well formed.",
    "E0112": "Comparisons are chained.",
    "E0113": "A value is used as a literal.",
    "E0114": "Something other than a value is used as a value.",
    "E0115": "The head of a rule is not an atom.",
    "E0116": "Something other than an atom is negated.",
    "E0117": "An included file does not exist.",
    "E0118": "An include path is not relative.",
    "E0119": "A program file is not UTF-8.",
    "E0120": "A location specifier is not allowed here.",
    "E0121": "A domain does not have exactly one variable.",
    "E0122": "A path is not well formed.",
    "E0123": "A process is not closed.",
    "E0124": "An included file is outside the folder of the program.",
    "E0125": "An include does not name a program file.",
    "E0126": "A program is too long.",
    "E0127": "An included file cannot be read.",
    # Names and declarations
    "E0201": "A relation is neither declared nor derived.",
    "E0202": "A relation or type is declared twice.",
    "E0203": "An atom has the wrong number of arguments.",
    "E0204": "A primary key names an unknown column, or repeats one.",
    "E0205": "A column name occurs twice in a declaration.",
    "E0206": "A label names two rules.",
    "E0207": "A rule derives an input relation.",
    "E0208": "A typedef refers to itself.",
    "E0209": "A type does not exist.",
    "E0210": "A type has wrong parameters.",
    "E0211": "A relation cannot be symmetric.",
    "E0212": "A function does not exist.",
    "E0213": "A function is declared twice.",
    "E0214": "A relation cannot be a multiset.",
    # Types
    "E0301": "A variable has two types.",
    "E0302": "A value and its column have different types.",
    "E0303": "The type of a column cannot be inferred.",
    "E0304": "Arithmetic requires numbers.",
    "E0305": "A comparison requires two values of one type.",
    "E0306": "A number does not fit its decimal type.",
    "E0307": "A number is out of range.",
    "E0308": "Strings are joined with `++`.",
    "E0309": "`++` requires strings, or lists of one type.",
    "E0310": "Truth values have no order.",
    "E0311": "The result of decimal arithmetic has too many digits after the point.",
    "E0312": "A function does not take these arguments.",
    "E0313": "The type of an empty list cannot be inferred.",
    "E0314": "The elements of a list are of different types.",
    "E0315": "A function used as a literal does not return a truth value.",
    "E0316": "A value that may be null is used where a value is needed.",
    "E0317": "`null` is used where it has no meaning.",
    "E0318": "A column must not be null.",
    # Safety
    "E0401": "A variable of a head is not bound.",
    "E0402": "A variable of a negated atom is not bound.",
    "E0403": "A variable of a comparison is not bound.",
    "E0404": "A head contains a wildcard.",
    "E0405": "An expression contains a wildcard.",
    "E0406": "Assignments depend on each other.",
    "E0407": "An assignment assigns a variable that is already bound.",
    "E0408": "An assignment assigns something other than a variable.",
    "E0409": "A path that can be empty binds neither of its ends.",
    "E0410": "The negation of a path that can be empty never holds.",
    # Aggregates
    "E0501": "A relation depends on its own negation.",
    "E0502": "The value of an aggregate decides which groups a recursion has.",
    "E0503": "A recursion with `min` or `max` is not monotone.",
    "E0504": "Derivation sets do not cover a recursion.",
    "E0505": "A recursion across processes is not supported.",
    "E0506": "A condition on the time is in a recursion.",
    "E0507": "The time is used otherwise than in a comparison with a column.",
    "E0520": "An aggregate is used outside of a head.",
    "E0521": "An aggregate is used inside an aggregate.",
    "E0522": "An aggregate function does not exist.",
    "E0523": "An aggregate does not apply to this type.",
    "E0524": "The rules of a head have different aggregates.",
    "E0525": "An aggregate with witnesses is not the only one of its head.",
    "E0526": "A `first` is not complete.",
    # Locations
    "E0601": "The location of a relation differs between its uses.",
    "E0602": "A relation has two locations.",
    # Not supported by this version
    "E0704": "A program with processes cannot be compiled to one script.",
    "E0710": "A disjunction has too many alternatives.",
    "E0711": "An expression is nested too deeply.",
    "E0714": "A directive of Soufflé is in a program in Flintlog's own language.",
    # Processes
    "E0731": "Two processes have the same name.",
    "E0732": "A process cannot be made from a pattern.",
    "E0733": "A statement is outside of the processes.",
    "E0734": "A file does not say which process it is.",
    "E0735": "A process outputs a relation of another process.",
    "E0736": "No process outputs a relation that is read.",
    "E0737": "The ends of a channel do not agree.",
    "E0740": "A program cannot run on nodes.",
    # NDlog
    "E0750": "NDlog's soft state is not supported.",
    "E0751": "NDlog's events are not supported.",
    "E0752": "NDlog's `periodic` is not supported.",
    "E0753": "NDlog's rules that delete are not supported.",
    "E0754": "SeNDlog's authentication is not supported.",
    "E0755": "Weights of rules are not supported.",
    "E0756": "A function of RapidNet is not supported.",
    "E0757": "An operator or value of NDlog is not supported.",
    "E0758": "A statement of NDlog or of its preprocessor is not supported.",
    "E0759": "A macro is not well formed.",
    # Soufflé
    "E0761": "Algebraic data types of Soufflé are not supported.",
    "E0762": "Choice domains of Soufflé are not supported.",
    "E0763": "User-defined functors of Soufflé are not supported.",
    "E0764": "A functor of Soufflé is not supported.",
    "E0765": "A subsumption of Soufflé is not a minimum or maximum.",
    "E0766": "A component of Soufflé is not well formed.",
    "E0767": "An option of a directive of Soufflé is not supported.",
    "E0768": "A construct of Soufflé is not supported.",
    "E0769": "A record of Soufflé cannot be stored.",
    "E0770": "A preprocessor line of a Soufflé program is wrong.",
    "E0772": "An aggregate of Soufflé is not supported.",
    # DDlog
    "E0780": "DDlog's streams are not supported.",
    "E0781": "DDlog's statements and loops are not supported.",
    "E0782": "DDlog's generics and external types are not supported.",
    "E0783": "A type of DDlog is not supported.",
    "E0784": "An operator of DDlog is not supported.",
    "E0785": "A function of DDlog is not supported.",
    "E0786": "A way to reduce groups is not supported.",
    "E0787": "A declaration of DDlog is not supported.",
    "E0788": "A variable of DDlog is declared a second time.",
    "E0789": "A function or constructor of DDlog is declared twice.",
    # SQL
    "E0790": "The text is not SQL.",
    "E0791": "A statement of SQL is not supported.",
    "E0792": "A construct of SQL is not supported.",
    "E0793": "A function, type or name of SQL has no equal.",
    "E0794": "A name of SQL does not exist, or is ambiguous.",
    "E0795": "A recursive query of SQL is not supported.",
    # Command files
    "E0901": "A command of a command file is not well formed.",
    "E0902": "A command names a relation that it does not apply to.",
    "E0903": "A value of a command does not fit its column.",
    "E0904": "A command does not fit the state of the transaction.",
    "E0905": "An update does not fit the existing primary keys.",
    "E0906": "A transaction is refused.",
    # Warnings
    "W0801": "A declared relation is used nowhere.",
    "W0802": "A declared relation is always empty.",
    "W0803": "A recursion computes new values.",
    "W0804": "A variable is named like a constant of other languages.",
    "W0810": "A rule cannot be localized.",
    "W0811": "A construct of DDlog is ignored.",
    "W0812": "A function or type of DDlog is used nowhere.",
    "W0813": "A constraint of SQL is not checked.",
    "W0814": "A condition of SQL is never true.",
    "W0901": "A command file ends within a transaction.",
}
"""Stable codes and their titles; each has a section in ``docs/errors.md``. E01: syntax, E02: names and declarations,
E03: types, E04: safety, E05: strata and aggregates, E06: locations, E07: not supported by this version, and processes,
E09 and W09: command files, W08: other warnings."""

_CAUSED = ("W0801", "W0802", "W0804", "W0812")
"""Warnings that an error repeats or may cause: a relation seems unused if the rule that uses it is wrong."""


def severity_of(code: str) -> str:
    """Return ``error`` or ``warning``."""
    return "warning" if code.startswith("W") else "error"


@dataclass(frozen=True)
class Note:
    """A remark that helps to understand a diagnostic, usually about a second source position."""

    message: str
    span: Span | None = None


@dataclass(frozen=True)
class Diagnostic:
    """A problem: ``code`` from :data:`CODES`, what is wrong in one sentence, where, and how to fix it."""

    code: str
    message: str
    span: Span
    help: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def severity(self) -> str:
        """Return ``error`` or ``warning``."""
        return severity_of(self.code)


def in_a_line(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as one line of prose, without its source excerpt."""
    helped = f" ({diagnostic.help})" if diagnostic.help else ""
    return f"{diagnostic.code}, {diagnostic.span}: {diagnostic.message}{helped}"


class CompileError(Exception):
    """Raised when a program is refused; ``diagnostics`` say why, warnings included, about the files ``sources``."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Iterable[SourceFile] = ()) -> None:
        """Store the diagnostics and the sources."""
        self.diagnostics = tuple(diagnostics)
        self.sources = tuple(sources)
        super().__init__(self.diagnostics, self.sources)

    def __str__(self) -> str:
        """Return the diagnostics as the command line prints them, the first of them on a line of its own."""
        by_name = {source.name: source for source in self.sources}
        return "\n" + "\n\n".join(render(diagnostic, by_name) for diagnostic in self.diagnostics)


MOST_ERRORS = 50
"""How many errors of a file are looked for."""

LONGEST_NAME, LONGEST_MESSAGE = 120, 1000
"""The longest names, and other texts in back quotes, and the longest messages, in characters."""

_QUOTED = re.compile(rf"(?<=`)[^`]{{{LONGEST_NAME + 1},}}(?=`)")


def shortened(message: str) -> str:
    """Return a message with long names and other quoted texts cut, and cut itself if it is still too long."""
    if len(message) > LONGEST_NAME:
        message = _QUOTED.sub(lambda found: f"{found[0][: LONGEST_NAME - 3]}...", message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 3]}..."


@dataclass
class Diagnostics:
    """Collects the diagnostics of all passes."""

    items: list[Diagnostic] = field(default_factory=list)
    _known: set[Diagnostic] = field(init=False, repr=False)
    _errors: Counter[str] = field(init=False, repr=False, default_factory=Counter)

    def __post_init__(self) -> None:
        """Index the initial items."""
        self._known = set(self.items)

    def report(
        self, code: str, message: str, span: Span, *, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> None:
        """Add a diagnostic, unless the same one exists. Raise :class:`CompileError` with all of them if it is the last
        one of its file that is reported, so that a file of another kind neither takes long nor fills the screen."""
        assert code in CODES, code
        notes = tuple(replace(note, message=shortened(note.message)) for note in notes)
        item = Diagnostic(code, shortened(message), span, help and shortened(help), notes)
        if item in self._known:
            return
        self._known.add(item)
        self._errors[span.file] += item.severity == "error"
        if self._errors[span.file] < MOST_ERRORS:
            self.items.append(item)
            return
        last = Note(f"the file has {MOST_ERRORS} errors; what else is wrong with it is not looked for")
        self.items.append(replace(item, notes=(*item.notes, last)))
        raise CompileError(self.sorted())

    @property
    def failed(self) -> bool:
        """Return whether an error was reported."""
        return any(item.severity == "error" for item in self.items)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics in source order. Beside errors, leave out warnings that an error may have caused."""
        items = [item for item in self.items if item.code not in _CAUSED] if self.failed else self.items
        return tuple(sorted(items, key=lambda d: (d.span.file, d.span.line, d.span.column, d.code)))

    def check(self) -> None:
        """Raise :class:`CompileError` if an error was reported."""
        if self.failed:
            raise CompileError(self.sorted())


def render(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> str:
    """Return the text form of a diagnostic: a headline, the source line with carets, notes and help. ``sources`` are
    the files by name."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, sources)
    for note in diagnostic.notes:
        lines.append(f"note: {note.message}")
        if note.span is not None:
            lines += _excerpt(note.span, sources)
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    return "\n".join(map(_visible, lines))


LONGEST_EXCERPT = 240
"""How many characters of a source line are shown."""


def _excerpt(span: Span, sources: Mapping[str, SourceFile]) -> list[str]:
    source = sources.get(span.file)
    lines = [f"  --> {span.file if source is None else source.shown}:{span.line}:{span.column}"]
    if source is not None and 0 < span.line <= len(source.lines):
        text = source.lines[span.line - 1]
        number = str(span.line)
        start, end = span.column - 1, span.column - 1 + span.length
        if len(text) > LONGEST_EXCERPT:
            first = max(0, min(start - LONGEST_EXCERPT // 3, len(text) - LONGEST_EXCERPT))
            last = first + LONGEST_EXCERPT
            before, after = "..." if first else "", "..." if last < len(text) else ""
            text = f"{before}{text[first:last]}{after}"
            start, end = start - first + len(before), min(end, last) - first + len(before)
        # Keep tabs before the carets, so that they line up at any tab width.
        lead = "".join("\t" if character == "\t" else " " * _width(character) for character in text[:start])
        behind = max(end - len(text), 0)
        lines.append(f"{number} | {text}")
        lines.append(f"{' ' * len(number)} | {lead}{'^' * max(sum(map(_width, text[start:end])) + behind, 1)}")
    return lines


_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that nobody sees."""


def _visible(line: str) -> str:
    """Return a line with replacement characters for characters that are invisible or move the cursor."""
    return "".join(
        c if (c.isprintable() and c not in _FILLERS) or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line
    )


def escaped(text: str) -> str:
    """Return text with JSON escapes for what a terminal would hide or interpret, except tabs and line breaks."""
    return "".join(f"\\u{ord(c):04x}" if _is_hidden(c) else c for c in text)


def _is_hidden(character: str) -> bool:
    seen = character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"
    return not seen or character in _FILLERS


def _width(character: str) -> int:
    """Return the width of a character on a terminal, in columns."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def listed(names: Iterable[str]) -> str:
    """Return the names as a list in words, each once: ``a``, ``a and b``, ``a, b and c``."""
    once = list(dict.fromkeys(names))
    return " and ".join([", ".join(once[:-1]), once[-1]]) if len(once) > 1 else "".join(once)
