"""Draw the story of a network: what each node sent over time, and after each event the links and the best paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

Link = tuple[str, str]

PLACES = {
    "Amsterdam": (0.06, 0.40),
    "Copenhagen": (0.62, 0.06),
    "Berlin": (0.92, 0.38),
    "Dresden": (0.88, 0.74),
    "Frankfurt": (0.42, 0.94),
    "Essen": (0.24, 0.66),
}
"""Where cities are in a panel, from its left and top edge, as shares of its size."""

WIDTH, LEFT, LANE, TOP = 1080, 100, 40, 64
PANEL, PANEL_GAP, PANELS_IN_A_ROW = 190, 70, 4
BAR = 0.5
"""The seconds of a bar."""

STYLE = """
  svg { --text: #1f2328; --soft: #59636e; --page: #ffffff; --line: #d1d9e0; --blue: #0b5cad; --red: #b42318;
    --gone: #f6d5d1; background: var(--page); }
  @media (prefers-color-scheme: dark) {
    svg { --text: #e6edf3; --soft: #9da7b3; --page: #0d1117; --line: #30363d; --blue: #79b8ff; --red: #ff8f85;
      --gone: #4a2320; }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--text); }
  .soft { fill: var(--soft); } .middle { text-anchor: middle; } .end { text-anchor: end; } .head { font-weight: 600; }
  .bar { fill: var(--blue); } .away { fill: var(--gone); } .line { stroke: var(--line); }
  .event { stroke: var(--soft); stroke-dasharray: 3 3; } .mark { fill: var(--text); } .number { fill: var(--page); }
  .link { stroke: var(--soft); } .best { stroke: var(--blue); stroke-width: 3.5; }
  .cut { stroke: var(--red); stroke-dasharray: 4 4; } .wrong { fill: var(--red); }
  .city { fill: var(--page); stroke: var(--text); } .killed { fill: var(--gone); stroke: var(--red); }
"""


@dataclass(frozen=True)
class Moment:
    """An event, and what was there once all was quiet. Times are in seconds since the beginning, ``before`` and
    ``after`` are numbers of paths. ``differing`` are the relations that are not those of a single evaluation, ``links``
    those that are up, ``killed`` the cities whose nodes do not run, and ``best`` the hops of the best paths that are
    drawn."""

    title: str
    began: float
    quiet: float
    messages: int
    tuples: int
    before: int
    after: int
    differing: tuple[str, ...]
    links: frozenset[Link]
    killed: frozenset[str]
    best: frozenset[Link]


@dataclass(frozen=True)
class Sample:
    """How many tuples a run of the node of a city had sent at some time."""

    time: float
    city: str
    run: int
    tuples: int


def draw(moments: Sequence[Moment], samples: Sequence[Sample], cities: Sequence[str], home: str) -> str:
    """Return the picture as SVG; the best paths in it begin at ``home``."""
    links = sorted(frozenset[Link]().union(*(moment.links for moment in moments)))
    rows = -(-len(moments) // PANELS_IN_A_ROW)
    below = TOP + LANE * len(cities) + 100
    height = below + rows * (PANEL + PANEL_GAP - 30)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        text(20, 26, "Tuples that each node sent; an event, its number above, ends where all is quiet", "head"),
        *timeline(moments, samples, cities),
        text(20, below - 24, f"Afterwards: links, and the best paths from {home}", "head"),
    ]
    for number, moment in enumerate(moments):
        row, column = divmod(number, PANELS_IN_A_ROW)
        x, y = 40 + column * (PANEL + PANEL_GAP), below + row * (PANEL + PANEL_GAP - 30)
        parts += [f'<g transform="translate({x} {y})">', *panel(number + 1, moment, links), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def timeline(moments: Sequence[Moment], samples: Sequence[Sample], cities: Sequence[str]) -> Iterator[str]:
    """Yield a lane for each city: bars of what its node sent, and where it was away."""
    last = max(moment.quiet for moment in moments)
    scale, bottom = (WIDTH - LEFT - 30) / last, TOP + LANE * len(cities)
    for began, ended in zip(moments, [*moments[1:], None], strict=True):
        for city in began.killed:
            x, y = LEFT + began.began * scale, TOP + LANE * cities.index(city)
            width = ((ended.began if ended else last) - began.began) * scale
            yield f'<rect class="away" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE}"/>'
    bars = {city: sent_by_bar([sample for sample in samples if sample.city == city]) for city in cities}
    most = max((tuples for found in bars.values() for tuples in found.values()), default=1)
    for lane, city in enumerate(cities, 1):
        y = TOP + LANE * lane
        yield text(LEFT - 10, y - 10, city, "end")
        yield f'<line class="line" x1="{LEFT}" y1="{y}" x2="{WIDTH - 30}" y2="{y}"/>'
        for number, tuples in sorted(bars[city].items()):
            tall = max(1.0, (LANE - 6) * tuples / most)
            at = f'x="{LEFT + number * BAR * scale:.1f}" y="{y - tall:.1f}" width="{max(2.0, BAR * scale):.1f}"'
            yield f'<rect class="bar" {at} height="{tall:.1f}"><title>{escape(city)}: {tuples:,} tuples</title></rect>'
    for number, moment in enumerate(moments, 1):
        x = LEFT + moment.began * scale
        yield f'<line class="event" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<line class="event" x1="{x:.1f}" y1="{TOP - 6}" x2="{LEFT + moment.quiet * scale:.1f}" y2="{TOP - 6}"/>'
        yield from marked(x, TOP - 14, number)
    for second in range(0, int(last) + 1, 5 if last > 12 else 1):
        yield text(LEFT + second * scale, bottom + 18, f"{second} s", "soft middle")


def sent_by_bar(samples: Sequence[Sample]) -> dict[int, int]:
    """Return how many tuples a node sent in the time of each bar; a new run counts from 0."""
    found: dict[int, int] = {}
    for before, now in pairwise([Sample(0.0, "", 0, 0), *samples]):
        sent = now.tuples - (before.tuples if now.run == before.run else 0)
        if sent > 0:
            bar = int(now.time / BAR)
            found[bar] = found.get(bar, 0) + sent
    return found


def panel(number: int, moment: Moment, links: Sequence[Link]) -> Iterator[str]:
    """Yield the network after an event."""
    yield from marked(0, -4, number)
    yield text(14, 0, moment.title)
    quiet = f"{moment.quiet - moment.began:.1f} s, {moment.messages:,} messages, {moment.before} → {moment.after} paths"
    yield text(14, 16, quiet, "soft")
    if moment.differing:
        yield text(14, 32, f"DIFFERS in {', '.join(moment.differing)}", "wrong")
    at = {city: (x * PANEL, 40 + y * (PANEL - 50)) for city, (x, y) in PLACES.items()}
    for link in links:
        kind = "link" if link in moment.links else "cut"
        kind = "best" if {link, link[::-1]} & moment.best else kind
        (x1, y1), (x2, y2) = (at[end] for end in link)
        yield f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
    for city, (x, y) in at.items():
        kind = "city killed" if city in moment.killed else "city"
        yield f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="9"><title>{escape(city)}</title></circle>'
        yield text(x, y + 4, "†" if city in moment.killed else city[0], "middle")


def marked(x: float, y: float, number: int) -> Iterator[str]:
    """Yield the number of an event in a disc."""
    yield f'<circle class="mark" cx="{x:.1f}" cy="{y}" r="9"/>'
    yield text(x, y + 4, str(number), "middle number")


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return a text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
