"""Exports of a causal model to Graphviz DOT, GML and GraphML; `CausalModel.to_json` writes JSON."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from xml.etree import ElementTree

from unperturbed.analysis.causal.model.result import CausalModel

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_NODE_KEYS = {"name": "string", "kind": "string", "formula": "string"}
_EDGE_KEYS = {
    "strength": "double",
    "p_value": "double",
    "stability": "double",
    "directed": "boolean",
    "required": "boolean",
    "definitional": "boolean",
    "conflicting": "boolean",
}
# Characters that XML 1.0 cannot represent, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STABLE, _UNSTABLE = 0.9, 0.5
_THINNEST, _WIDER = 1.0, 4.5


def edge_width(strength: float) -> float:
    """Return an edge's line width in pixels: 1 at 0 bits per row, 3.25 at 1 bit, at most 5.5."""
    if math.isnan(strength):
        return _THINNEST
    return _THINNEST + _WIDER * max(strength, 0.0) / (max(strength, 0.0) + 1)


def edge_style(stability: float) -> str:
    """Return an edge's line style by stability: solid from 90 % or if not measured, dashed from 50 %, else dotted."""
    if math.isnan(stability) or stability >= _STABLE:
        return "solid"
    return "dashed" if stability >= _UNSTABLE else "dotted"


def to_dot(model: CausalModel) -> str:
    """Return the graph in Graphviz DOT: width shows strength, style stability; open directions have no arrowhead.

    Nodes are numbered, because a variable's name could be mistaken for DOT syntax.
    """
    number = {name: at for at, name in enumerate(model.data.names)}
    lines = ["digraph model {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for name, at in number.items():
        shape = "" if model.data.kinds[name] == "continuous" else ", shape=ellipse"
        lines.append(f"  v{at} [label={_quoted(name)}{shape}];")
    for edge in model.edges:
        width, style = edge_width(edge.strength), edge_style(edge.stability)
        tooltip = f"strength {edge.strength:.4g} bits, p {edge.p_value:.3g}, stability {edge.stability:.3g}"
        head = "" if edge.directed else ", dir=none, color=orange"
        lines.append(
            f"  v{number[edge.source]} -> v{number[edge.target]} [penwidth={width:.2f}, style={style}, "
            f"tooltip={_quoted(tooltip)}{head}];"
        )
    return "\n".join([*lines, "}", ""])


def to_graphml(model: CausalModel) -> str:
    """Return the graph as GraphML: nodes with kind and formula, edges with their known attributes.

    A node's id is its variable's name, as DoWhy and NetworkX require; if XML cannot represent some name, ids are
    numbers. Unknown values are left out. Characters that XML cannot represent become U+FFFD.
    """
    root = ElementTree.Element("graphml", xmlns=_NAMESPACE)
    for domain, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for name, kind in keys.items():
            key = {"id": f"{domain}_{name}", "for": domain, "attr.name": name, "attr.type": kind}
            ElementTree.SubElement(root, "key", key)
    graph = ElementTree.SubElement(root, "graph", id="model", edgedefault="directed")
    held = not any(_NOT_XML.search(name) for name in model.data.names)
    number = {name: name if held else f"v{at}" for at, name in enumerate(model.data.names)}
    for name, identity in number.items():
        node = ElementTree.SubElement(graph, "node", id=identity)
        mechanism = model.mechanisms.get(name)
        texts = {"name": name, "kind": model.data.kinds[name], "formula": mechanism.formula if mechanism else ""}
        for what, text in texts.items():
            if text:
                _add(node, f"node_{what}", text)
    for edge in model.edges:
        ends = {"source": number[edge.source], "target": number[edge.target]}
        line = ElementTree.SubElement(graph, "edge", {**ends, "directed": _truth(edge.directed)})
        for what in _EDGE_KEYS:
            value = getattr(edge, what)
            if isinstance(value, bool):
                _add(line, f"edge_{what}", _truth(value))
            elif math.isfinite(value):
                _add(line, f"edge_{what}", repr(float(value)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def to_gml(model: CausalModel) -> str:
    """Return the graph as GML, which DoWhy reads; a node's label is its variable's name.

    An edge with an open direction is written in both directions. GML is ASCII: other characters become references such
    as `&#8722;`.
    """
    number = {name: at for at, name in enumerate(model.data.names)}
    lines = ["graph [", "  directed 1"]
    for name, at in number.items():
        lines.append(f'  node [ id {at} label "{_ascii(name)}" kind "{model.data.kinds[name]}" ]')
    for edge in model.edges:
        ends = [(edge.source, edge.target)]
        if not edge.directed:
            ends.append((edge.target, edge.source))
        known = " ".join(
            f"{what.replace('_', '')} {_gml_real(value)}"
            for what in ("strength", "p_value", "stability")
            if math.isfinite(value := getattr(edge, what))
        )
        lines += [f"  edge [ source {number[source]} target {number[target]} {known} ]" for source, target in ends]
    return "\n".join([*lines, "]", ""])


def _gml_real(value: float) -> str:
    """Return a number without an exponent: GML's grammar, which Graphviz enforces, allows only one-digit exponents."""
    written = f"{Decimal(repr(float(value))):f}"
    return written if "." in written else f"{written}.0"


def _ascii(text: str) -> str:
    """Escape text for a quoted GML string."""
    return "".join(sign if " " <= sign <= "~" and sign not in '"&' else f"&#{ord(sign)};" for sign in text)


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _add(parent: ElementTree.Element, key: str, text: str) -> None:
    ElementTree.SubElement(parent, "data", key=key).text = _NOT_XML.sub("\ufffd", text)


def _quoted(text: str) -> str:
    """Return a quoted DOT string; backslashes, which start escapes in labels, are doubled."""
    plain = _NOT_XML.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\r\n]+", " ", plain) + '"'
