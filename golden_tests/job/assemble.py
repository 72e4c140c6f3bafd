"""A small generated script made by hand: the runtime around a program, with stages faked over Python sets."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from flintlog.runtime.store.extensions import FUNCTIONS_OF_PARTS
from flintlog.targets.bundle import bundle
from flintlog.targets.runtimes import PART_MODULES

from golden_tests.harness import whole_modules

BASIC_FUNCTIONS = ("init", "apply", "status", "relation", "verify")

HEADER = '"""A job for tests."""\n\nfrom __future__ import annotations\n'

PROGRAM = """
LINK = Relation(
    name="link",
    table="link",
    columns=(Column("src", "int", "src"), Column("dst", "int", "dst")),
    kind="input",
    source="reach.dl:1",
)
PAIR = Relation(
    name="pair",
    table="pair",
    columns=(Column("src", "int", "src"), Column("dst", "int", "dst")),
    kind="counted",
    source="reach.dl:2",
    output=True,
    location="src",
)
ALL_TYPES = Relation(
    name="sample",
    table="sample",
    columns=(
        Column("i", "int", "i"),
        Column("f", "float", "f"),
        Column("d", "decimal(6,2)", "d"),
        Column("s", "string", "s"),
        Column("b", "bool", "b"),
        Column("day", "date", "day"),
        Column("at", "timestamp", "at_"),
    ),
    kind="input",
    source="reach.dl:3",
)
PRICE = Relation(
    name="price",
    table="price",
    columns=(Column("item", "string", "item"), Column("op", "int", "op_")),
    kind="input",
    source="reach.dl:4",
    key=("item",),
)
PRICED = Relation(
    name="priced",
    table="priced",
    columns=(Column("item", "string", "item"), Column("op", "int", "op_")),
    kind="counted",
    source="reach.dl:5",
    output=True,
)
GO = Relation(name="go", table="go", columns=(), kind="input", source="reach.dl:6")
GONE = Relation(name="gone", table="gone", columns=(), kind="counted", source="reach.dl:7", output=True)

PROGRAM = Program(
    name="reach",
    sha256="a" * 64,
    compiler="0.1.0",
    relations=(LINK, PAIR, ALL_TYPES, PRICE, PRICED, GO, GONE),
    stages=(),
)
"""

FAKES = '''
COPIES = {"pair": "link", "priced": "price", "gone": "go"}


def keep_file(state: Path, base: Path, path: Path) -> Written:
    """A file where it was written, forced to the disk."""
    sync(path)
    return Written(path.relative_to(state).as_posix(), 0)


@dataclass(frozen=True)
class Outcome:
    """What the stages did."""

    buckets: int
    relations: dict[str, StoredRelation]
    clocks: dict[str, Any]
    effects: dict[str, Any]
    changes: dict[str, tuple[str, ...]]
    counts: dict[str, tuple[int, int]]
    steps: list[dict[str, Any]]
    as_of: str = ""


def stored(root: str, manifest: Manifest, relation: Relation) -> set[tuple[Any, ...]]:
    """The tuples of a relation, base and changes."""
    rows: set[tuple[Any, ...]] = set()
    names = [column.sql for column in relation.tuple_columns]
    for bucket in manifest.relations.get(relation.table, StoredRelation()).buckets.values():
        for name in bucket.base:
            rows |= {tuple(row[n] for n in names) for row in pq.read_table(f"{root}/{name}").to_pylist()}
        for name in bucket.changes:
            for row in pq.read_table(f"{root}/{name}").to_pylist():
                values = tuple(row[n] for n in names)
                rows = rows | {values} if row["_present"] else rows - {values}
    return rows


def write_rows(root: str, name: str, relation: Relation, rows: list[tuple[Any, ...]], last: str) -> tuple[str, ...]:
    """Writes tuples with one more column."""
    path = Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [c.sql for c in relation.tuple_columns]
    kinds = [arrow_type(c.type) for c in relation.tuple_columns]
    support = [("_support", pa.int64())] if relation.kind == "counted" else []
    kind = {"_op": pa.string(), "_present": pa.bool_(), "": None}[last]
    schema = pa.schema([*zip(columns, kinds), *support, *([(last, kind)] if last else [])])
    records = []
    for row in rows:
        values = (*row[: len(columns)], *([1] if support else []), *row[len(columns) :])
        records.append(dict(zip(schema.names, values)))
    pq.write_table(pa.Table.from_pylist(records, schema=schema), path)
    return (name,)


def run_stages(
    request: Request,
    before: Manifest | None,
    staged: dict[str, list[str]],
    attempt: str,
    initial: bool = False,
    rebuilt: frozenset[str] = frozenset(),
    also: tuple[Any, ...] = (),
) -> Outcome:
    """Applies staged changes to inputs; derived relations are copies of them."""
    program, root, options = request.program, str(request.root), request.options
    relations: dict[str, StoredRelation] = {}
    changes: dict[str, tuple[str, ...]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for relation in program.relations:
        source = COPIES.get(relation.table, relation.table)
        origin = next(r for r in program.relations if r.table == source)
        old = stored(root, before, origin) if before else set()
        new = set(old)
        events = [row for file in staged.get(source, []) for row in pq.read_table(file).to_pylist()]
        names = [column.sql for column in origin.tuple_columns]
        for row in sorted(events, key=lambda row: row["_op"], reverse=True):
            values = tuple(row[n] for n in names)
            if origin.key and row["_op"] in "+x":
                new = {old for old in new if old[0] != values[0]}
            new = new | {values} if row["_op"] == "+" else new - {values}
        plus, minus = sorted(new - old), sorted(old - new)
        folder = f"data/{attempt}/{relation.table}"
        if before:
            bucket = replace(before.relations[relation.table].buckets[0], rows=len(new))
            if plus or minus:
                kept = [(*v, True) for v in sorted(new)]
                base = StoredRelation(0, {0: new_bucket(bucket.base, 0)})
                everything = stored(root, replace(before, relations={relation.table: base}), relation)
                kept += [(*v, False) for v in sorted(everything - new)]
                written = write_rows(root, f"{folder}/changes.parquet", relation, kept, "_present")
                bucket = replace(bucket, changes=written, change_rows=(len(kept),))
                rows = [(*v, "+") for v in plus] + [(*v, "-") for v in minus]
                changes[relation.table] = write_rows(root, f"{folder}/net.parquet", relation, rows, "_op")
                counts[relation.table] = (len(plus), len(minus))
        else:
            bucket = new_bucket(write_rows(root, f"{folder}/base.parquet", relation, sorted(new), ""), len(new))
            counts[relation.table] = (len(plus), 0)
        relations[relation.table] = StoredRelation(len(new), {0: bucket})
    return Outcome(options.buckets, relations, {}, {}, changes, counts, [{"stage": 0, "engine": options.engine}])


def verify_stages(
    executor: Any, program: Program, manifest: Manifest, root: str, options: Options
) -> list[dict[str, Any]]:
    """Compares copies with what they copy."""
    found = []
    for table, source in COPIES.items():
        both = [next(r for r in program.relations if r.table == name) for name in (table, source)]
        copy, origin = (stored(root, manifest, relation) for relation in both)
        found += [{"relation": table, "problem": "missing", "tuple": str(row)} for row in sorted(origin - copy)]
    return found
'''


def script_text(program: str = PROGRAM, fakes: str = FAKES) -> str:
    """The whole script."""

    end = """
JOB = Job(PROGRAM)
main = JOB.main
"""
    end += "".join(f"{name} = JOB.{name}\n" for name in (*BASIC_FUNCTIONS, *FUNCTIONS_OF_PARTS))
    end += """
if __name__ == "__main__":
    sys.exit(main())
"""
    return "\n\n".join(
        [
            HEADER,
            bundle(whole_modules("job.job", *(name for names in PART_MODULES.values() for name in names))),
            program,
            fakes,
            end,
        ]
    )


def load(folder: Path, program: str = PROGRAM, name: str = "reach_job", fakes: str = FAKES) -> ModuleType:
    """The script as an imported module."""
    path = folder / f"{name}.py"
    path.write_text(script_text(program, fakes), "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    import sys

    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
