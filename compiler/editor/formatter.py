"""Format programs: keep tokens and comments in order, and normalize white space.

    input   relation a( x:int,y : int )// what comes in
    p(X,Y):-a(X,Z),/* of b */b(Z,Y).
    r1:far(X,Y):-p(X,Z) // a step
       ,far(Z,Y)
       .

becomes

    input relation a(x: int, y: int)  // what comes in
    p(X, Y) :- a(X, Z), /* of b */ b(Z, Y).
    r1: far(X, Y) :-
        p(X, Z),  // a step
        far(Z, Y).

The formatter works on tokens, so names, numbers and strings stay as written. A comment stays between its two tokens,
except that a comment at the end of a line may move over a comma, a dot, ``:-`` or ``;``. The result is parsed again:
unless it has the same statements and comments, nothing is returned. docs/editors.md describes the layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache

from lark import Token, Tree

from ..diagnostics import CompileError, Diagnostics
from ..frontend import read_program
from ..frontend.classify import Classifier
from ..frontend.parser import statements_with_tokens
from ..frontend.syntax_errors import end_of, start_of
from ..source import SourceFile, Span

WIDTH = 100
"""The width of lines in columns; comments, and text that cannot be broken, may exceed it."""

INDENT, BLOCK_INDENT = 4, 2

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MARK = "\ufeff"

_OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "AGGREGATE_OPEN": "AGGREGATE_CLOSE"}
_CLOSING = frozenset(_OPENING.values())
_GLUED_LEFT = _CLOSING | {"COMMA", "END", "COLON", "AGGREGATE_OPEN", "POSTFIX", "QUESTION"}
_GLUED_RIGHT = frozenset(_OPENING) | {"BANG", "CARET", "AT", "PREFIX"}
_NAMES = frozenset({"NAME", "QUALIFIED"})
_OPERAND_ENDS = (
    _NAMES | _CLOSING | {"INT", "NUMBER", "STRING", "DATE", "TIMESTAMP", "TRUE", "FALSE", "POSTFIX", "QUESTION"}
)
"""The tokens that may end a value or a path: a minus after one is a binary operator, elsewhere it is a sign."""

_OPERATORS = (frozenset({"PLUS", "MINUS", "CONCAT", "BAR"}), frozenset({"STAR", "SLASH", "PERCENT", "MIDDLE_DOT"}))
"""Operators before which a line may be broken, loosest binding first."""

_TYPED = frozenset({"DECLARE", "TYPEDEF", "EXTERN", "PROCESS"})


class MeaningChanged(Exception):
    """Raised when the formatted text is not the same program, which is a bug in the formatter."""


def format_program(source: SourceFile) -> str:
    """Return the formatted text of a program.

    Raise CompileError with the diagnostics if the program has syntax errors, and MeaningChanged instead of returning a
    different program. Other errors, such as type errors, are ignored, and included files are not read.
    """
    meaning = _meaning(source)
    text = _layout(source)
    try:
        kept = _meaning(replace(source, text=text)) == meaning
    except CompileError:
        kept = False
    if not kept:
        raise MeaningChanged
    return text


def format_file(content: bytes, name: str, path: str = "") -> bytes:
    """Return the formatted content of a program file, keeping its byte order mark and its kind of line ends.

    Raise the errors of :func:`format_program`, and CompileError if the file is not UTF-8; they show ``path``, if given.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        diagnostics = Diagnostics()
        diagnostics.report("E0119", f"`{name}` is not UTF-8 text", Span(name, 1, 1, 1))
        raise CompileError(diagnostics.items, (SourceFile(name, "", path),)) from None
    mark = _MARK if text.startswith(_MARK) else ""
    ends = "\r\n" if "\r\n" in text else "\n"
    plain = text.removeprefix(_MARK).replace("\r\n", "\n").replace("\r", "\n")
    formatted = format_program(SourceFile(name, plain, path))
    return (mark + formatted.replace("\n", ends)).encode()


def comments_of(source: SourceFile) -> list[tuple[str, ...]]:
    """Return the comments of a program in sorted order, each as its lines without surrounding white space."""
    comments: list[tuple[str, ...]] = []
    last = 0
    ends = [*(token for _, tokens in _parsed(source) for token in tokens), None]
    for token in ends:
        start = len(source.text) if token is None else start_of(token)
        comments += map(_lines, _COMMENT.findall(source.text[last:start]))
        if token is not None:
            last = start + len(token) if token.type in ("LABEL", "AGGREGATE_OPEN") else end_of(token)
    return sorted(comments)


@lru_cache(maxsize=2)
def _parsed(source: SourceFile) -> tuple[tuple[Tree[Token], tuple[Token, ...]], ...]:
    """Return the statements of a program with their tokens; cached, since they are needed several times."""
    return tuple(statements_with_tokens(source, Diagnostics()))


def _lines(comment: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in comment.split("\n"))


def _meaning(source: SourceFile) -> tuple[object, ...]:
    """Return the statements of a program, without places and texts, and its comments. Raise CompileError on errors."""
    diagnostics = Diagnostics()
    program = read_program(source, diagnostics, load=lambda name: SourceFile(name, ""))
    if diagnostics.failed:
        raise CompileError(diagnostics.sorted(), (source,))
    assert program.complete
    classifier = Classifier(source, diagnostics)
    statements = [bare(classifier.statement(tree)) for tree, _ in _parsed(source)]
    return statements, comments_of(source)


def bare(value: object) -> object:
    """Return a syntax node as nested tuples, without spans and quoted text."""
    if is_dataclass(value):
        parts = ((f.name, getattr(value, f.name)) for f in fields(value) if f.name != "text")
        return (type(value).__name__, *((name, bare(part)) for name, part in parts if not isinstance(part, Span)))
    return tuple(map(bare, value)) if isinstance(value, tuple) else (type(value).__name__, value)


# ---- words and gaps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Comment:
    """A comment, its lines right-stripped; ``column`` is its offset in its line, and ``indent`` the white space at the
    start of that line."""

    text: str
    column: int
    indent: str

    @property
    def ends_line(self) -> bool:
        return self.text.startswith("//")

    @property
    def tall(self) -> bool:
        return "\n" in self.text


@dataclass(frozen=True)
class _CommentLine:
    """Comments on a line without words. ``blank`` says whether a blank line precedes it; ``continues`` whether it is
    aligned below a comment after words, as its continuation."""

    comments: tuple[_Comment, ...]
    blank: bool = False
    continues: bool = False


@dataclass(frozen=True)
class _Gap:
    """The comments before a word: those ``behind`` the previous word that end its line, lines of comments, and those
    ``before`` the word on its own line. Without a line break in the gap, all comments are ``before``."""

    behind: tuple[_Comment, ...] = ()
    lines: tuple[_CommentLine, ...] = ()
    before: tuple[_Comment, ...] = ()
    blank: bool = False

    @property
    def breaks(self) -> bool:
        """Return whether a new line must begin here."""
        return bool(self.lines) or any(comment.ends_line for comment in self.behind)

    @property
    def spreads(self) -> bool:
        """Return whether the comments keep the surrounding text from fitting on one line."""
        return self.breaks or any(comment.tall for comment in (*self.behind, *self.before))

    @property
    def inline(self) -> tuple[_Comment, ...]:
        """Return the comments of a gap in the middle of a line."""
        return (*self.behind, *self.before)

    def then(self, following: _Gap) -> _Gap:
        """Return ``following``, the gap after the word, with the ``behind`` and ``lines`` of this gap moved to it."""
        if self.breaks:
            moved = (_CommentLine(following.behind),) if following.behind else ()
            return replace(following, behind=self.behind, lines=(*self.lines, *moved, *following.lines))
        return replace(following, behind=(*self.behind, *following.behind))


@dataclass(frozen=True)
class _Word:
    """A token, and the gap before it."""

    kind: str
    text: str
    gap: _Gap


def _gap(text: str, start: int, end: int) -> _Gap:
    """Return the gap between a word that ends at ``start`` and one that begins at ``end``."""
    rows: list[tuple[int, list[_Comment]]] = [(0, [])]
    place = start
    for match in _COMMENT.finditer(text, start, end):
        ends = text.count("\n", place, match.start())
        if ends or place == 0:
            rows.append((ends, []))
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        comment = "\n".join(part.rstrip() for part in match[0].split("\n"))
        rows[-1][1].append(_Comment(comment, len(before), before[: len(before) - len(before.lstrip())]))
        place = match.end()
    ends = text.count("\n", place, end)
    if ends or end == len(text):
        rows.append((ends, []))
    if len(rows) == 1:
        return _Gap(before=tuple(rows[0][1]))
    (_, behind), *middle, (last, before_) = rows
    under = behind[-1] if behind else None
    lines = []
    for number, comments in middle:
        first = comments[0]
        goes_on = under is not None and number == 1 and first.column == under.column
        goes_on = goes_on and under is not None and under.ends_line and first.ends_line
        under = first if goes_on else None
        lines.append(_CommentLine(tuple(comments), number > 1, goes_on))
    return _Gap(tuple(behind), tuple(lines), tuple(before_), last > 1)


def _words(source: SourceFile) -> tuple[list[_Word], list[tuple[int, int]]]:
    """Return the words of a program, with its end as the last word, and the range of words of each statement."""
    words: list[_Word] = []
    statements = []
    last = 0

    def add(kind: str, text: str, start: int) -> None:
        nonlocal last
        words.append(_Word(kind, text, _gap(source.text, last, start)))
        last = start + len(text)

    for tree, tokens in _parsed(source):
        first = len(words)
        postfix = set(_postfix_operators(tree))
        for token in tokens:
            kind, start = token.type, start_of(token)
            if kind == "LABEL":
                add(kind, str(token), start)
                add("COLON", ":", end_of(token) - 1)
            elif kind == "AGGREGATE_OPEN":
                add("AGGREGATE", str(token), start)
                add(kind, "<", end_of(token) - 1)
            else:
                if kind == "MINUS" and (len(words) == first or words[-1].kind not in _OPERAND_ENDS):
                    kind = "PREFIX"
                add("POSTFIX" if start in postfix else kind, str(token), start)
        statements.append((first, len(words)))
    add("$END", "", len(source.text))
    return _comments_moved(words), statements


def _postfix_operators(tree: Tree[Token]) -> Iterator[int]:
    """Yield the offsets of postfix operators of paths, as in ``e*(X, Y)``, which the grammar reads as binary ones."""
    if tree.data in ("clause", "alternatives", "items", "negation", "group"):
        for child in tree.children:
            if isinstance(child, Tree):
                yield from _postfix_operators(child)
    elif tree.data == "binary":
        _, operator, right = tree.children
        assert isinstance(operator, Token) and isinstance(right, Tree)
        if operator.type in ("PLUS", "STAR", "MINUS") and right.data == "group":
            yield start_of(operator)


def _comments_moved(words: Sequence[_Word]) -> list[_Word]:
    """Return the words with line-ending comments moved behind commas, colons, ``:-`` and dots, and before ``;``."""
    moved = list(words)
    for place in range(len(moved) - 1):
        word, following = moved[place : place + 2]
        gap = word.gap
        if word.kind in ("COMMA", "IF", "COLON") or (word.kind == "END" and not gap.lines):
            if gap.behind or gap.lines:
                moved[place] = replace(word, gap=_Gap(before=gap.before))
                moved[place + 1] = replace(following, gap=gap.then(following.gap))
        elif word.kind == "SEMICOLON" and (following.gap.behind or following.gap.lines):
            if gap.lines and gap.before:
                gap = replace(gap, lines=(*gap.lines, _CommentLine(gap.before)), before=())
            gap = replace(gap, behind=gap.inline, before=())
            gap_left = following.gap
            moved[place] = replace(word, gap=gap.then(_Gap(gap_left.behind, gap_left.lines)))
            moved[place + 1] = replace(following, gap=_Gap(before=gap_left.before))
    return moved


# ---- line breaks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Break:
    """A line break: the indent of the new line, and that of the comment lines above it."""

    indent: int
    comments: int


@dataclass
class _Statement:
    """The words of a statement, and its line breaks.

    Places are indexes of words; stretches include their last word. ``breaks`` maps the words that begin a line to their
    breaks; ``hanging`` is the indent of a word if a comment forces it to a new line.
    """

    words: Sequence[_Word]
    indent: int
    spaces: list[str] = field(init=False)
    partners: dict[int, int] = field(init=False, default_factory=dict)
    breaks: dict[int, _Break] = field(init=False, default_factory=dict)
    hanging: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        instance = [word.kind for word in self.words[:3]][::2] == ["PROCESS", "EQUAL"]
        self.typed = self.words[0].kind in _TYPED and not instance
        self.spaces = ["", *(self._space(place) for place in range(1, len(self.words)))]
        opened = []
        for place, word in enumerate(self.words):
            if word.kind in _OPENING:
                opened.append(place)
            elif word.kind in _CLOSING:
                self.partners[opened.pop()] = place
        self._statement()

    def _space(self, place: int) -> str:
        """Return the text between a word and the previous one if neither a comment nor a line break separates them."""
        former, latter = self.words[place - 1].kind, self.words[place].kind
        if (former in ("PREFIX", "MINUS") and latter == "PREFIX") or (former, latter) == ("IF", "END"):
            return " "
        if latter in _GLUED_LEFT:
            return ""
        if former in _GLUED_RIGHT:
            return ""
        if latter == "LPAR":
            return "" if former in _NAMES | {"RPAR", "POSTFIX", "QUESTION"} else " "
        if latter == "AT":
            return "" if former in _NAMES else " "
        if self.typed and (latter in ("LESS", "GREATER") or former == "LESS"):
            return ""
        if self.typed and former == "COMMA" and self.words[place - 2].kind == "INT":  # decimal(12,2)
            return ""
        return " "

    def inline(self, place: int, comments: Sequence[_Comment]) -> str:
        """Return a word with the comments before it, and with the space that separates them from the previous word."""
        word = self.words[place]
        if not comments:
            return self.spaces[place] + word.text
        opens = place == 0 or self.words[place - 1].kind in _OPENING
        closes = word.kind in _CLOSING | {"COMMA", "COLON", "END"}
        texts = " ".join(comment.text for comment in comments)
        return f"{'' if opens else ' '}{texts}{'' if closes else ' '}{word.text}"

    def _length(self, first: int, last: int) -> int:
        """Return the length of a stretch on one line, including comments before its first word on the same line."""
        start = self.inline(first, self.words[first].gap.before).lstrip(" ")
        return len(start) + sum(len(self.inline(at, self.words[at].gap.inline)) for at in range(first + 1, last + 1))

    def _lead(self, first: int, last: int) -> int:
        """Return how many columns a stretch takes before a word that follows it on the same line."""
        behind = self.words[last + 1].gap.behind
        return self._length(first, last) + 1 + sum(len(comment.text) + 1 for comment in behind)

    def _spreads(self, first: int, last: int) -> bool:
        """Return whether comments keep a stretch from fitting on one line."""
        return any(self.words[place].gap.spreads for place in range(first + 1, last + 1))

    def _split(self, first: int, last: int, kinds: frozenset[str]) -> list[tuple[int, int]]:
        """Return the parts of a stretch between words of some kinds outside parentheses."""
        cuts = [place for place in self._outer(first, last) if self.words[place].kind in kinds]
        return list(zip([first, *(cut + 1 for cut in cuts)], [*(cut - 1 for cut in cuts), last], strict=True))

    def _outer(self, first: int, last: int) -> Iterator[int]:
        """Yield the words of a stretch outside parentheses, including opening but not closing ones."""
        place = first
        while place <= last:
            yield place
            place = self.partners.get(place, place) + 1

    def _hang(self, first: int, last: int, indent: int) -> None:
        for place in range(first, last + 1):
            self.hanging[place] = indent

    def _statement(self) -> None:
        last, indent = len(self.words) - 1, self.indent
        self._hang(0, last, indent + INDENT)
        if not self._spreads(0, last) and indent + self._length(0, last) <= WIDTH:
            return
        head = 2 if self.words[0].kind == "LABEL" else 0
        lead = self._lead(0, 1) if head else 0
        if head and self.words[head].gap.breaks:
            indent, lead = indent + INDENT, 0
            self.breaks[head] = _Break(indent, indent)
        end = last - (self.words[last].kind == "END")
        self._hang(end, last, indent + INDENT)
        arrows = [place for place in self._outer(head, end) if self.words[place].kind == "IF"]
        if not arrows:
            self._item(head, end, indent, lead, last - end)
            return
        (arrow,) = arrows
        self._item(head, arrow - 1, indent, lead, len(" :-"))
        if arrow < end:
            self._alternatives(arrow + 1, end, indent + INDENT, 1)

    def _alternatives(self, first: int, last: int, indent: int, behind: int) -> None:
        """Put each alternative on a line, and each item of an alternative that is too long or the only one.

        ``behind`` is the number of columns after the last word on its line.
        """
        self.breaks[first] = _Break(indent, indent)
        parts = self._split(first, last, frozenset({"SEMICOLON"}))
        for number, (start, stop) in enumerate(parts):
            if number:
                self.breaks[start - 1] = _Break(indent, indent)
            inner = indent + len("; ") * (number > 0)
            self._hang(start, stop, inner + INDENT)
            after = behind if stop == last else 0
            fits = inner + self._length(start, stop) + after <= WIDTH
            if len(parts) > 1 and fits and not self._spreads(start, stop):
                continue
            for begin, end in self._split(start, stop, frozenset({"COMMA"})):
                if begin > start:
                    self.breaks[begin] = _Break(inner, inner)
                self._item(begin, end, inner, 0, after if end == stop else 1)

    def _item(self, first: int, last: int, indent: int, lead: int, behind: int) -> None:
        """Break a literal, head, argument or declaration if it is too long or its comments require it.

        Its first line has ``lead`` columns before it, its last line ``behind`` columns after it.
        """
        self._hang(first + 1, last, indent + INDENT)
        long = indent + lead + self._length(first, last) + behind > WIDTH
        if not long and not self._spreads(first, last):
            return
        outer = list(self._outer(first, last))
        if long:
            for operators in _OPERATORS:
                cuts = [place for place in outer if place > first and self.words[place].kind in operators]
                if cuts:
                    self._operands(first, last, cuts, indent, lead, behind)
                    return
        pairs = [(place, self.partners[place]) for place in outer if place in self.partners]
        chosen = [pair for pair in pairs if self._spreads(*pair)]
        if long and not chosen:
            chosen = sorted((p for p in pairs if p[1] > p[0] + 1), key=lambda pair: self._length(*pair))[-1:]
        for opening, closing in chosen:
            self.breaks[closing] = _Break(indent, indent + INDENT)
            if closing > opening + 1:
                self._alternatives(opening + 1, closing - 1, indent + INDENT, 0)

    def _operands(self, first: int, last: int, cuts: list[int], indent: int, lead: int, behind: int) -> None:
        """Break a stretch before each of the operators ``cuts``."""
        self._item(first, cuts[0] - 1, indent, lead, 0)
        inner = indent + INDENT
        for cut, following in zip(cuts, [*cuts[1:], last + 1], strict=True):
            self.breaks[cut] = _Break(inner, inner)
            self._item(cut + 1, following - 1, inner, self._lead(cut, cut), behind if following > last else 0)


# ---- lines -----------------------------------------------------------------------------------------------------------


@dataclass
class _Row:
    """A line: words, or a line of comments; then a comment after the words, which continues the one above if
    ``continues``. No blank line follows a line that ``opens`` a block. Comments are aligned across statements of one
    line, and within a longer statement, whose lines have the same number as ``statement``."""

    text: str
    comment: str = ""
    continues: bool = False
    opens: bool = False
    statement: int = 0

    @property
    def alignable(self) -> bool:
        """Return whether the line has a comment behind words, and neither spans several lines."""
        return bool(self.comment) and "\n" not in self.comment + self.text


@dataclass
class _Page:
    """The lines made so far; the last one may still grow."""

    rows: list[_Row] = field(default_factory=list)

    def blank(self) -> None:
        """Add a blank line, unless at the top of the page or of a block, or after another one."""
        if self.rows and (self.rows[-1].text or self.rows[-1].comment) and not self.rows[-1].opens:
            self.rows.append(_Row(""))

    def comments(self, gap: _Gap, indent: int, blanks: bool) -> None:
        """Add the comments of a gap above the line of its word; ``blanks`` says whether to keep blank lines."""
        if gap.behind:
            self.rows[-1].comment = " ".join(comment.text for comment in gap.behind)
        for line in gap.lines:
            if blanks and line.blank:
                self.blank()
            if line.continues and self.rows[-1].alignable:
                self.rows.append(_Row("", line.comments[0].text, continues=True))
            else:
                self.rows.append(_Row(" " * indent + _reindented(line.comments, indent)))

    def statement(self, statement: _Statement, comments: int) -> None:
        """Add a statement; ``comments`` is the indent of the comments above it."""
        top = 0
        for place, word in enumerate(statement.words):
            line = statement.breaks.get(place)
            if place == 0:
                self.comments(word.gap, comments, blanks=True)
                if word.gap.blank and word.kind != "CLOSE":
                    self.blank()
                line = _Break(statement.indent, comments)
            elif line is not None or word.gap.breaks:
                hanging = statement.hanging[place]
                line = line or _Break(hanging, hanging)
                self.comments(word.gap, line.comments, blanks=False)
            if line is None:
                self.rows[-1].text += statement.inline(place, word.gap.inline)
            else:
                text = statement.inline(place, word.gap.before).lstrip(" ")
                self.rows.append(_Row(" " * line.indent + text))
            top = top or len(self.rows)
        self.rows[-1].opens = statement.words[-1].kind == "OPEN"
        if len(self.rows) > top:
            for row in self.rows[top - 1 :]:
                row.statement = top

    def __str__(self) -> str:
        """Return the text, with comments behind words aligned in consecutive lines."""
        lines: list[str] = []
        run: list[_Row] = []
        for row in [*self.rows, _Row("")]:
            apart = run and (not row.alignable or run[-1].continues or row.statement != run[-1].statement)
            if apart and not row.continues:
                lines += _aligned(run)
                run = []
            if row.alignable:
                run.append(row)
            else:
                lines.append(f"{row.text}  {row.comment}" if row.comment else row.text)
        return "".join(f"{line}\n" for line in lines[:-1])


def _aligned(rows: Sequence[_Row]) -> list[str]:
    """Return lines with their comments in one column, or two spaces after the words if a line would become too long."""
    widest = max(len(row.text) for row in rows)
    fits = all(widest + 2 + len(row.comment) <= WIDTH for row in rows if not row.continues)
    lines, column = [], 0
    for row in rows:
        if not row.continues:
            column = (widest if fits else len(row.text)) + 2
        lines.append(row.text.ljust(column) + row.comment)
    return lines


def _reindented(comments: Sequence[_Comment], indent: int) -> str:
    """Return the comments of a line; the further lines of a block comment move with its first line."""
    first, *rest = (comment.text for comment in comments)
    top, *lines = first.split("\n")
    old = comments[0].indent
    for line in lines:
        top += "\n" + (" " * indent + line.removeprefix(old) if line and line.startswith(old) else line)
    return " ".join((top, *rest))


def _layout(source: SourceFile) -> str:
    """Return the formatted text of a program without syntax errors."""
    words, statements = _words(source)
    page, depth = _Page(), 0
    for first, behind in statements:
        kinds = words[first].kind, words[behind - 1].kind
        inside = depth * BLOCK_INDENT
        depth -= kinds[0] == "CLOSE"
        page.statement(_Statement(words[first:behind], depth * BLOCK_INDENT), inside)
        depth += kinds[1] == "OPEN"
    page.comments(words[-1].gap, 0, blanks=True)
    return str(page)
