"""Rewrite a Soufflé program without components to the syntax tree of all dialects.

    .decl total(x: number, n: number)
    total(x, n) :- item(x), n = sum y : { price(x, y) }.

becomes

    relation total(x: int, n: int)
    total_sum(x, sum<y>) :- price(x, y).
    total(x, n) :- item(x), (total_sum(x, n) ; !total_sum(x, _), n = 0).

``declarations`` collects what the program declares. From that, ``relations`` makes the relations, ``types`` the types,
and ``clauses`` the rules, with ``literals`` and ``values`` for their parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...diagnostics import Diagnostics
from ...ir import syntax
from ..syntax_errors import LeftOut
from . import tree
from .clauses import Clauses
from .declarations import DeclaredProgram, RelationNames
from .functors import NoEquivalent
from .literals import Literals
from .relations import relation_statements, size_statements
from .values import Values


def lowered(
    statements: Sequence[tree.Statement], diagnostics: Diagnostics
) -> tuple[tuple[syntax.Statement, ...], tuple[syntax.RelationFile, ...]]:
    """Return the syntax nodes of the statements of a program, and the files of its relations."""
    names = RelationNames()
    program = DeclaredProgram(statements, names, diagnostics)
    values = Values(program)
    clauses = Clauses(program, names, values, Literals(program, names, values))
    return tuple(_statements(statements, program, names, clauses)), tuple(program.files)


def _statements(
    given: Sequence[tree.Statement], program: DeclaredProgram, names: RelationNames, clauses: Clauses
) -> Iterator[syntax.Statement]:
    """Yield the statements of the program, in the order of what they were made of."""
    for statement in given:
        try:
            match statement:
                case tree.Declaration():
                    yield from relation_statements(statement, program, names)
                case tree.TypeDeclaration():
                    yield from program.types.typedef(statement)
                case tree.Directive(kind="printsize"):
                    yield from size_statements(statement.relation, statement.span, program, names)
                case tree.Clause():
                    yield from clauses.statements(statement)
        except LeftOut:
            continue
        except NoEquivalent as refusal:
            program.diagnostics.report(refusal.code, refusal.message, refusal.span, help=refusal.help)
