"""Find the strongly connected components of a program's derived relations."""

from __future__ import annotations

from ..graphs import reached, strongly_connected
from ..ir import typed


def components(program: typed.TypedProgram) -> list[list[str]]:
    """Return the groups of mutually dependent derived relations, in source order and each after its dependencies."""
    derived = [relation.name for relation in program.relations if relation.role == "derived"]
    reads: dict[str, list[str]] = {name: [] for name in derived}
    for rule in program.rules:
        for atom in rule.read:
            if atom.relation in reads:
                reads[rule.head.relation].append(atom.relation)
    for relation in program.relations:
        if relation.guards:
            reads[relation.name] += [name for name in relation.guards if name in reads]
        if relation.grouped:
            reads[relation.name].append(relation.grouped[0])
    parts = strongly_connected(derived, reads)
    member_of = {name: index for index, members in enumerate(parts) for name in members}
    assert all(member_of[b] <= member_of[a] for a, targets in reads.items() for b in targets)
    return parts


def is_recursive(
    rules: tuple[typed.TypedRule, ...] | list[typed.TypedRule], members: set[str] | frozenset[str]
) -> bool:
    """Return whether the rules of a component read its own relations."""
    return any(atom.relation in members for rule in rules for atom in rule.read)


def between(program: typed.TypedProgram, members: frozenset[str]) -> frozenset[str]:
    """Return the members and the relations that the compiler has added between them: those that are derived from a
    member and that a member is derived from."""
    read = {(rule.head.relation, atom.relation) for rule in program.rules for atom in rule.read}
    from_members = reached(members, {(source, head) for head, source in read})
    return members | (from_members & reached(members, read))
