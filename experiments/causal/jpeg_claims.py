"""What section 8.5 of "Causal analysis for performance modeling of computer programs" says of JPEG 2000, held against the models learnt here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl
from claims import Held
from jpeg_models import Models
from jpeg_tables import Change, change

__all__ = ["claims_of_lossless", "claims_of_lossy"]

_PER_PIXEL = ("bits_ppel", "instr_ppel", "L2M_ppel", "CPI", "T_ppel")
_SLIGHT = 0.05
"""Changes below this share, on average, are told as slight: of hundreds of points an edge can stand for next to nothing."""

_MOST = 0.8
"""Share of pairs of points in which a picture must take less with one kernel."""


def claims_of_lossless(models: Models) -> list[Held]:
    """Return what the paper says of lossless compression, and what was found."""
    sizes = (
        "All performance characteristics increase linearly with the image size, so that values per pixel are size independent."
    )
    layers = "The number of quality layers has no significant impact on bitrate or performance."
    found = [_without_effect(models, ("width", "height"), sizes)]
    if "layers" in models.runs.parameters:
        found.append(_without_effect(models, ("layers",), layers))
    return [
        *found,
        _bitrate(models),
        _misses(models),
        _indicator(models),
        Held(
            "A higher precision has no significant effect on the runtime; its derivative is positive and depends on kernel and width.",
            "OpenJPEG has no precision to choose: 5/3 is computed in whole numbers of 32 bits, 9/7 in floating-point numbers of 32 bits.",
            None,
            verdict="not tried",
        ),
        _edges(
            models,
            [("image", "bits_ppel"), ("image", "instr_ppel"), ("image", "CPI")],
            "8.5.1: *imageType* influences bits, instructions and CPI independently: three features of an image at least.",
        ),
        _derivative(models, "kernel", "8.5.1: *imageType* influences the derivative of the time over the kernel."),
        _faster(models),
        _derivative(
            models,
            "block",
            "8.5.1: images behave differently under different block sizes: *imageType* influences dT/dblockSize.",
        ),
    ]


def claims_of_lossy(models: Models) -> list[Held]:
    """Return what the paper says of lossy compression, and what was found."""
    return [_instructions(models), _compressibility(models)]


def _edges(models: Models, wanted: Sequence[tuple[str, str]], paper: str) -> Held:
    """Return whether all of these edges were learnt."""
    there = [edge for edge in wanted if edge in models.edges()]
    gone = [edge for edge in wanted if edge not in there]
    said = [f"edges {_listed(there)}"] if there else []
    said += [f"no edge {_listed(gone)}{_why(models, gone)}"] if gone else []
    return Held(paper, _sentence("; ".join(said)), True if not gone else (None if there else False))


def _bitrate(models: Models) -> Held:
    wanted = [("bits_ppel", "instr_ppel"), ("bits_ppel", "CPI")]
    held = _edges(models, wanted, "The resulting bitrate influences instructions and cycles per instruction.")
    ranks = [f"{of} {_rank(models, 'bits_ppel', of)}" for _, of in wanted]
    return replace(held, found=f"{held.found} Spearman's ρ of bits_ppel with {' and '.join(ranks)}.")


def _derivative(models: Models, over: str, paper: str) -> Held:
    """Return whether the image has an edge to the derivative of the time, or in part to that of the instructions."""
    told = []
    for of in ("T", "instr"):
        causes = models.causes(f"d{of}_d{over}")
        told.append(f"causes of d{of}_d{over}: {', '.join(causes) or 'none'}")
    there = ["image" in models.causes(f"d{of}_d{over}") for of in ("T", "instr")]
    return Held(paper, _sentence("; ".join(told)), True if there[0] else None if there[1] else False)


def _without_effect(models: Models, parameters: Sequence[str], paper: str) -> Held:
    """Return whether these parameters have no edge; small changes where they have one agree in part."""
    found = [(source, target) for source, target in models.edges() if source in parameters and target in _PER_PIXEL]
    if not found:
        return Held(paper, _sentence(f"no edge from {' or '.join(parameters)} to a value per pixel"), True)
    frame = models.runs.frame
    changes = {(over, of): _whole(models, of, over) for over, of in found}
    told = [f"{over} → {of}: {one}" for (over, of), one in changes.items()]
    slight = all(abs(one.ratio - 1) < _SLIGHT for one in changes.values())
    ends = sorted(frame[parameters[0]].unique())
    said = f"edges, with the change from {ends[0]} to {ends[-1]}: {'; '.join(told)}{'; all slight' if slight else ''}"
    return Held(paper, _sentence(said), None if slight else False)


def _misses(models: Models) -> Held:
    found = [edge for edge in (("L2M_ppel", "CPI"), ("L2M_ppel", "T_ppel")) if edge in models.edges()]
    said = f"edges {_listed(found)}" if found else "no edge L2M_ppel → T_ppel or L2M_ppel → CPI"
    misses = models.runs.frame["L2M_ppel"].to_numpy()
    said += f"; {misses.min():.2g} to {misses.max():.2g} misses a pixel"
    return Held("The cache misses do not affect the runtime.", _sentence(said), not found)


def _indicator(models: Models) -> Held:
    rank = float(models.runs.frame.select(pl.corr("instr_ppel", "L2M_ppel", method="spearman")).item())
    edge = ("instr_ppel", "L2M_ppel") in models.edges()
    said = f"{'edge' if edge else 'no edge'} instr_ppel → L2M_ppel; Spearman's ρ = {_rank(models, 'instr_ppel', 'L2M_ppel')}"
    agrees = edge and rank > 0.7
    return Held(
        "The number of instructions is a good indicator for the number of cache misses.",
        _sentence(said),
        True if agrees else (None if edge or rank > 0.7 else False),
    )


def _faster(models: Models) -> Held:
    """Return whether some pictures are compressed faster with one kernel and others with the other; in part where only instructions say so."""
    told, both = [], []
    for of, what in (("T_ppel", "less time"), ("instr_ppel", "fewer instructions")):
        less: dict[str, list[str]] = {"5/3": [], "9/7": []}
        for image in sorted(models.runs.frame["image"].unique()):
            part = models.runs.frame.filter(pl.col("image") == image)
            found = change(part, of, "kernel", ("5/3", "9/7"), models.runs.parameters)
            share = found.rising / found.pairs
            if share >= _MOST or share <= 1 - _MOST:
                less["5/3" if share >= _MOST else "9/7"].append(image)
        told += [f"{what} with {kernel}: {', '.join(images) or 'none'}" for kernel, images in less.items()]
        both.append(all(less.values()))
    return Held(
        "8.5.1: some images are compressed faster with kernel 5/3 and others with 9/7.",
        f"In four pairs of five at least, {'; '.join(told)}.",
        True if both[0] else None if both[1] else False,
    )


def _instructions(models: Models) -> Held:
    causes = set(models.causes("instr_ppel"))
    wanted = {"bits_ppel", "block"}
    further = [name for name in models.runs.parameters if name in causes - wanted]
    told = [name if name == "image" else f"{name} ({_whole(models, 'instr_ppel', name)})" for name in further]
    said = f"causes of instr_ppel: {', '.join(sorted(causes)) or 'none'}"
    said += f"; not in the paper: {', '.join(told)}" if told else ""
    return Held(
        "The number of instructions is only affected by the bitrate and the block size.",
        _sentence(said),
        True if causes == wanted else None if wanted < causes else False,
    )


def _compressibility(models: Models) -> Held:
    found = [edge for edge in (("image", "CPI"), ("bits_ppel", "CPI")) if edge in models.edges()]
    said = f"edges {_listed(found)}" if found else "no edge from image or bits_ppel to CPI"
    return Held("CPI is not influenced by the compressibility of the image.", _sentence(said), not found)


def _rank(models: Models, one: str, other: str) -> str:
    """Return Spearman's coefficient of two quantities."""
    return f"{models.runs.frame.select(pl.corr(one, other, method='spearman')).item():.2f}".replace("-", "−")


def _whole(models: Models, of: str, over: str) -> Change:
    """Return what the change of a parameter from its least to its greatest value does."""
    frame = models.runs.frame
    values = ("5/3", "9/7") if over == "kernel" else (frame[over].min(), frame[over].max())
    return change(frame, of, over, values, models.runs.parameters)


def _why(models: Models, gone: Sequence[tuple[str, str]]) -> str:
    """Return by what the pairs of missing edges are separated."""
    told = []
    for source, target in gone:
        if source in models.model.data.names and target in models.model.data.names:
            found = models.model.separation(source, target)
            if found is not None and found.given:
                told.append(f"{target} given {' and '.join(found.given)}")
    return f" (independent: {'; '.join(told)})" if told else ""


def _listed(edges: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{source} → {target}" for source, target in edges)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
