"""The pictures of the site are what Mermaid draws of the diagrams in the pages; ``--update-golden`` draws them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from golden_tests.documentation.site import PICTURES, diagrams, picture_of
from golden_tests.integrations.browser import Browser
from golden_tests.integrations.environments import WANTED, node_modules

MERMAID = "mermaid@11.17.2"
SVG = "{http://www.w3.org/2000/svg}"

DRAW = """async diagram => {
  mermaid.initialize({startOnLoad: false, htmlLabels: false, flowchart: {htmlLabels: false}, fontFamily: "sans-serif"});
  return (await mermaid.render("picture", diagram)).svg;
}"""


@WANTED
def test_pictures(browser: Browser, update_golden: bool) -> None:
    """Each has the words, the boxes and the lines that Mermaid draws; places may differ by the fonts that are there."""
    library = node_modules(MERMAID) / "mermaid" / "dist" / "mermaid.min.js"
    with browser.open() as visit:
        visit.page.add_script_tag(path=str(library))
        drawn = {picture_of(text): plain(visit.page.evaluate(DRAW, text), picture_of(text).stem) for text in diagrams()}
    if update_golden:
        for path in set(PICTURES.glob("*.svg")) - set(drawn):
            path.unlink()
        for path, text in drawn.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path, text in drawn.items():
        assert content(path.read_text(encoding="utf-8")) == content(text)


def plain(svg: str, name: str) -> str:
    """A picture without Mermaid's colours and notes for its own scripts; docs/site/site.css has the colours."""
    ElementTree.register_namespace("", SVG[1:-1])
    root = ElementTree.fromstring(svg.replace("<br>", "<br/>"))
    used = set(re.findall(r"url\(#([^)]*)\)", svg))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}style", f"{SVG}filter", f"{SVG}linearGradient") or (
                child.tag == f"{SVG}marker" and child.get("id") not in used
            ):
                parent.remove(child)
    for node in root.iter():
        for key in [key for key in node.attrib if key.startswith("data-") or key == "style"]:
            del node.attrib[key]
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    # On a phone it shrinks, until its text is too small.
    root.attrib |= {"width": f"{width:.0f}", "height": f"{height:.0f}", "style": f"min-width: {width * 0.7:.0f}px"}
    text = ElementTree.tostring(root, encoding="unicode")
    text = re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), text)
    return re.sub(r"\bpicture(?=[_-]|\")", f"picture-{name}", text).replace("><g", ">\n<g") + "\n"


def content(svg: str) -> tuple[list[str], list[str]]:
    """The words of a picture in order, and the kinds of what is in it."""
    nodes = list(ElementTree.fromstring(svg).iter())
    return [word for node in nodes for word in (node.text or "").split()], [
        f"{node.tag} {node.get('class')}" for node in nodes
    ]
