"""A causal model as dot and GraphML, and in words: everything is there, and no name is taken for the language."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.causal import CausalModel, Knowledge, learn, to_dot, to_gml, to_graphml
from unperturbed.analysis.causal.model.export import edge_style, edge_width
from unperturbed.analysis.causal.model_text import (
    edge_remark,
    p_text,
    separation_sentence,
    summary_sentence,
    undecided,
)

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
EVIL = 'a"; b -> c; "\\\n<x>&amp;\x00\ud800'


def draw(names: tuple[str, str, str] = ("n", "kind", "time")) -> pl.DataFrame:
    chance = np.random.default_rng(4)
    n = chance.integers(5, 301, 120)
    kind = chance.integers(0, 2, 120)
    time = 2.0 * n + 40 * kind + chance.normal(size=120)
    return pl.DataFrame(dict(zip(names, (n, [("a", "b")[one] for one in kind], time), strict=True)))


@pytest.fixture(scope="module")
def model() -> CausalModel:
    return learn(
        draw(), Knowledge(tiers=[["n", "kind"], ["time"]], required=[("n", "time")]), test="regression", subsamples=3
    )


@pytest.fixture(scope="module")
def open_model() -> CausalModel:
    return learn(draw().select("n", "time"), test="regression", subsamples=3)


def edges_of_dot(text: str) -> dict[tuple[str, str], dict[str, str]]:
    labels = dict(re.findall(r'^  (v\d+) \[label="((?:[^"\\]|\\.)*)"', text, re.MULTILINE))
    found = {}
    for source, target, attributes in re.findall(r"^  (v\d+) -> (v\d+) \[(.*)\];$", text, re.MULTILINE):
        found[labels[source], labels[target]] = dict(re.findall(r'(\w+)=("[^"]*"|[^,]+)', attributes))
    return found


def test_dot_has_every_edge_with_its_width_and_style(model: CausalModel) -> None:
    found = edges_of_dot(to_dot(model))
    assert set(found) == {(edge.source, edge.target) for edge in model.edges} == {("n", "time"), ("kind", "time")}
    for edge in model.edges:
        drawn = found[edge.source, edge.target]
        assert float(drawn["penwidth"]) == pytest.approx(edge_width(edge.strength), abs=0.01)
        assert drawn["style"] == edge_style(edge.stability)
        assert "dir" not in drawn


def test_an_open_direction_has_no_arrowhead(open_model: CausalModel) -> None:
    (edge,) = open_model.edges
    assert not edge.directed
    (drawn,) = edges_of_dot(to_dot(open_model)).values()
    assert drawn["dir"] == "none"
    root = ElementTree.fromstring(to_graphml(open_model))
    assert [one.get("directed") for one in root.iter(f"{SPACE}edge")] == ["false"]


def test_graphml_says_all_that_is_known_of_edges_and_variables(model: CausalModel) -> None:
    root = ElementTree.fromstring(to_graphml(model))
    keys = {key.get("id"): (key.get("for"), key.get("attr.name")) for key in root.iter(f"{SPACE}key")}
    nodes = {}
    for node in root.iter(f"{SPACE}node"):
        told = {keys[item.get("key")][1]: item.text for item in node.iter(f"{SPACE}data")}
        nodes[node.get("id")] = told
    assert [node["name"] for node in nodes.values()] == ["n", "kind", "time"]
    assert nodes["time"]["formula"] == model.mechanisms["time"].formula
    found = {}
    for line in root.iter(f"{SPACE}edge"):
        told = {keys[item.get("key")][1]: item.text for item in line.iter(f"{SPACE}data")}
        found[nodes[line.get("source")]["name"], nodes[line.get("target")]["name"]] = told
    for edge in model.edges:
        told = found[edge.source, edge.target]
        assert float(told["strength"] or "nan") == edge.strength
        assert told["required"] == str(edge.required).lower()
        assert ("p_value" in told) == math.isfinite(edge.p_value)


def test_no_name_is_taken_for_the_language() -> None:
    hostile = learn(draw((EVIL.replace("\ud800", ""), "kind", "time")), test="regression", subsamples=0)
    dot = to_dot(hostile)
    # Without quoted strings, nothing but numbered nodes and attributes is left.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)
    assert set(re.findall(r"(\w+) ->", bare)) <= {"v0", "v1", "v2"}
    assert bare.count("{") == bare.count("}") == 1
    assert "\x00" not in dot
    root = ElementTree.fromstring(to_graphml(hostile))
    assert len(list(root.iter(f"{SPACE}node"))) == 3
    assert any((item.text or "").startswith('a"; b -> c;') for item in root.iter(f"{SPACE}data"))


@given(st.floats(0, 100), st.floats(0, 100))
def test_stronger_is_wider(one: float, other: float) -> None:
    assert 1 <= edge_width(one) <= 5.5
    assert (edge_width(one) <= edge_width(other)) == (edge_width(one) == edge_width(other) or one < other)


def test_styles_and_widths_at_their_ends() -> None:
    assert [edge_style(share) for share in (1.0, 0.9, 0.89, 0.5, 0.49, 0.0, math.nan)] == [
        "solid",
        "solid",
        "dashed",
        "dashed",
        "dotted",
        "dotted",
        "solid",
    ]
    assert edge_width(math.nan) == edge_width(0.0) == edge_width(-0.1) == 1.0


def test_words(model: CausalModel, open_model: CausalModel) -> None:
    assert summary_sentence(model) == "120 rows of 3 variables (1 discrete, 2 continuous) give 2 edges."
    assert summary_sentence(open_model).endswith("give 1 edge (1 without a direction).")
    (apart,) = model.separations
    assert separation_sentence(apart, 0.01).startswith("n and kind are independent (p = ")
    by_length = replace(apart, p_value=0.004, given=("time",))
    told = (
        "an edge between n and kind would not shorten the description of the data, although the test finds a "
        "dependence given time (p = 0.004)"
    )
    assert separation_sentence(by_length, 0.01) == told
    assert undecided(replace(model, separations=(by_length,))) == (
        f"No edge: {told}.",
        "Required edges that were not tested: n → time.",
    )
    assert (
        separation_sentence(replace(apart, given=("a", "b"), determined="kind"), 0.01)
        == "a and b determine kind, so n adds no information about kind"
    )
    required = model.edge("n", "time")
    assert required is not None
    assert edge_remark(model, required) == "required"
    (said,) = undecided(open_model)
    assert said.startswith("n — time: knowledge and data leave it undirected; formulas assume ")
    shaky = replace(open_model, edges=(replace(open_model.edges[0], directed=True, stability=0.3),))
    assert undecided(shaky) == ("n → time was found in only 30% of the subsamples.",)
    lost = replace(open_model, edges=(), stabilities={frozenset(("n", "time")): 0.7})
    assert undecided(lost) == ("n and time have no edge, but were adjacent in 70% of the subsamples.",)
    assert (p_text(0.0), p_text(math.nan), p_text(0.0123)) == ("0", "–", "0.012")


def test_json_holds_no_nan(open_model: CausalModel) -> None:
    told = json.loads(open_model.to_json())
    assert told["edges"][0]["directed"] is False


def test_networkx_takes_the_graph(model: CausalModel) -> None:
    graph = model.to_networkx()
    assert list(graph.nodes) == list(model.data.names)
    ends = {(edge.source, edge.target) for edge in model.edges}
    assert ends | {(edge.target, edge.source) for edge in model.edges if not edge.directed} == set(graph.edges)
    for edge in model.edges:
        assert graph.edges[edge.source, edge.target]["strength"] == edge.strength
    assert graph.nodes["time"]["formula"] == model.mechanisms["time"].formula


def test_files_of_the_graph_name_the_variables(model: CausalModel, open_model: CausalModel) -> None:
    """DoWhy takes GML, and any graph of NetworkX whose nodes are named as the columns."""
    import io

    import networkx as nx

    for one in (model, open_model):
        wanted = one.to_networkx()
        assert not re.search(r" \d[\d.]*[eE]", to_gml(one)), "Graphviz's gml2gv reads no exponent of two digits"
        assert set(nx.parse_gml(to_gml(one)).edges) == set(wanted.edges)
    if all(edge.directed for edge in model.edges):  # NetworkX refuses a graph with edges of both kinds
        assert set(nx.read_graphml(io.StringIO(to_graphml(model))).edges) == set(model.to_networkx().edges)
    odd = 'a "b" & −x'
    hostile = learn(draw((odd, "kind", "time")), test="regression", subsamples=0)
    assert set(nx.parse_gml(to_gml(hostile)).nodes) == {odd, "kind", "time"}


def test_any_table_is_learnt_from_and_inputs_are_named() -> None:
    table = draw()
    by_words = learn(table.to_pandas(use_pyarrow_extension_array=False), inputs=["n", "kind"], subsamples=0)
    by_knowledge = learn(table, Knowledge(inputs=["n", "kind"]), subsamples=0)
    assert by_words.to_dict()["edges"] == by_knowledge.to_dict()["edges"]
    assert by_words.knowledge.inputs == ("n", "kind")
