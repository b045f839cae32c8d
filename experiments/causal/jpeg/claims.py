"""Claims of section 8.5 on JPEG 2000, compared with the models learnt here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from experiments.causal.jpeg.models import Models
from experiments.causal.jpeg.tables import Change, change
from experiments.common.tables import Claim

_PER_PIXEL = ("bits_ppel", "instr_ppel", "L2M_ppel", "CPI", "T_ppel")
_SLIGHT = 0.05
"""Changes below this share, on average, count as slight: of hundreds of points an edge can be of no importance."""

_MOST = 0.8
"""Share of pairs of points in which a picture must take less with one kernel."""


def claim_of_sizes(models: Models) -> Claim:
    """Compare the paper's claim on the size of pictures with a model."""
    paper = (
        "All performance characteristics increase linearly with the image size, so that values per pixel are size "
        "independent."
    )
    return _without_effect(models, ("width", "height"), paper)


def claims_of_lossless(models: Models) -> list[Claim]:
    """Compare the paper's claims on lossless compression with the models."""
    layers = "The number of quality layers has no significant impact on bitrate or performance."
    claims = [claim_of_sizes(models)]
    if "layers" in models.runs.parameters:
        claims.append(_without_effect(models, ("layers",), layers))
    return [
        *claims,
        _bitrate(models),
        _misses(models),
        _indicator(models),
        Claim(
            "A higher precision has no significant effect on the runtime; its derivative is positive and depends "
            "on kernel and width.",
            "OpenJPEG has no precision to choose: 5/3 is computed in whole numbers of 32 bits, 9/7 in "
            "floating-point numbers of 32 bits. LU decomposition has: its sections tell what double in place "
            "of float costs.",
            None,
            verdict="not tried",
        ),
        _edges(
            models,
            [("image", "bits_ppel"), ("image", "instr_ppel"), ("image", "CPI")],
            "8.5.1: *imageType* influences bits, instructions and CPI independently: three features of an image "
            "at least.",
        ),
        _derivative(models, "kernel", "8.5.1: *imageType* influences the derivative of the time over the kernel."),
        _faster(models),
        _derivative(
            models,
            "block",
            "8.5.1: images behave differently under different block sizes: *imageType* influences dT/dblockSize.",
        ),
    ]


def claims_of_lossy(models: Models) -> list[Claim]:
    """Compare the paper's claims on lossy compression with the models."""
    return [_instructions(models), _compressibility(models)]


def _edges(models: Models, wanted: Sequence[tuple[str, str]], paper: str) -> Claim:
    """Return whether all of these edges were learnt."""
    there = [edge for edge in wanted if edge in models.edges()]
    gone = [edge for edge in wanted if edge not in there]
    said = [f"edges {_listed(there)}"] if there else []
    said += [f"no edge {_listed(gone)}{_why(models, gone)}"] if gone else []
    return Claim(paper, _sentence("; ".join(said)), True if not gone else (None if there else False))


def _bitrate(models: Models) -> Claim:
    wanted = [("bits_ppel", "instr_ppel"), ("bits_ppel", "CPI")]
    held = _edges(models, wanted, "The resulting bitrate influences instructions and cycles per instruction.")
    ranks = [f"{of} {_rank(models, 'bits_ppel', of)}" for _, of in wanted]
    return replace(held, found=f"{held.found} Spearman's ρ of bits_ppel with {' and '.join(ranks)}.")


def _derivative(models: Models, over: str, paper: str) -> Claim:
    """Return whether the image has an edge to the derivative of the time, or in part to that of the instructions."""
    told = []
    for of in ("T", "instr"):
        causes = models.causes(f"d{of}_d{over}")
        told.append(f"causes of d{of}_d{over}: {', '.join(causes) or 'none'}")
    there = ["image" in models.causes(f"d{of}_d{over}") for of in ("T", "instr")]
    return Claim(paper, _sentence("; ".join(told)), True if there[0] else None if there[1] else False)


def _without_effect(models: Models, parameters: Sequence[str], paper: str) -> Claim:
    """Return whether these parameters have no edge; small changes where they have one agree in part."""
    affected = [(source, target) for source, target in models.edges() if source in parameters and target in _PER_PIXEL]
    if not affected:
        return Claim(paper, _sentence(f"no edge from {' or '.join(parameters)} to a value per pixel"), True)
    frame = models.runs.frame
    changes = {(over, of): _whole(models, of, over) for over, of in affected}
    told = [f"{over} → {of}: {ratio}" for (over, of), ratio in changes.items()]
    slight = all(abs(change.ratio - 1) < _SLIGHT for change in changes.values())
    values = [sorted(frame[over].unique()) for over in parameters]
    ends = {f"{varied[0]} to {varied[-1]}" for varied in values}
    change = f"with the change from {ends.pop()}" if len(ends) == 1 else "with the change from the least to the largest"
    said = f"edges, {change}: {'; '.join(told)}{'; all slight' if slight else ''}"
    return Claim(paper, _sentence(said), None if slight else False)


def _misses(models: Models) -> Claim:
    edges = [edge for edge in (("L2M_ppel", "CPI"), ("L2M_ppel", "T_ppel")) if edge in models.edges()]
    said = f"edges {_listed(edges)}" if edges else "no edge L2M_ppel → T_ppel or L2M_ppel → CPI"
    misses = models.runs.frame["L2M_ppel"].to_numpy()
    said += f"; {misses.min():.2g} to {misses.max():.2g} misses a pixel"
    paper = "The cache misses do not affect the runtime."
    if models.runs.counted == "simulated":
        said += "; the misses are of simulated caches and the time is of the host's own, so that an edge proves nothing"
        return Claim(paper, _sentence(said + ", and neither does its absence"), None, "cannot be told")
    return Claim(paper, _sentence(said), not edges)


def _indicator(models: Models) -> Claim:
    rank = float(models.runs.frame.select(pl.corr("instr_ppel", "L2M_ppel", method="spearman")).item())
    edge = ("instr_ppel", "L2M_ppel") in models.edges()
    said = (
        f"{'edge' if edge else 'no edge'} instr_ppel → L2M_ppel; Spearman's ρ = "
        f"{_rank(models, 'instr_ppel', 'L2M_ppel')}"
    )
    agrees = edge and rank > 0.7
    return Claim(
        "The number of instructions is a good indicator for the number of cache misses.",
        _sentence(said),
        True if agrees else (None if edge or rank > 0.7 else False),
    )


def _faster(models: Models) -> Claim:
    """Return whether some pictures are compressed faster with one kernel, others with the other; None if only by
    instructions."""
    told, both = [], []
    for of, what in (("T_ppel", "less time"), ("instr_ppel", "fewer instructions")):
        less: dict[str, list[str]] = {"5/3": [], "9/7": []}
        for image in sorted(models.runs.frame["image"].unique()):
            part = models.runs.frame.filter(pl.col("image") == image)
            effect = change(part, of, "kernel", ("5/3", "9/7"), models.runs.parameters)
            share = effect.rising / effect.pairs
            if share >= _MOST or share <= 1 - _MOST:
                less["5/3" if share >= _MOST else "9/7"].append(image)
        told += [f"{what} with {kernel}: {', '.join(images) or 'none'}" for kernel, images in less.items()]
        both.append(all(less.values()))
    return Claim(
        "8.5.1: some images are compressed faster with kernel 5/3 and others with 9/7.",
        f"In four pairs of five at least, {'; '.join(told)}.",
        True if both[0] else None if both[1] else False,
    )


def _instructions(models: Models) -> Claim:
    causes = set(models.causes("instr_ppel"))
    wanted = {"bits_ppel", "block"}
    further = [name for name in models.runs.parameters if name in causes - wanted]
    told = [name if name == "image" else f"{name} ({_whole(models, 'instr_ppel', name)})" for name in further]
    said = f"causes of instr_ppel: {', '.join(sorted(causes)) or 'none'}"
    said += f"; not in the paper: {', '.join(told)}" if told else ""
    return Claim(
        "The number of instructions is only affected by the bitrate and the block size.",
        _sentence(said),
        True if causes == wanted else None if wanted < causes else False,
    )


def _compressibility(models: Models) -> Claim:
    edges = [edge for edge in (("image", "CPI"), ("bits_ppel", "CPI")) if edge in models.edges()]
    said = f"edges {_listed(edges)}" if edges else "no edge from image or bits_ppel to CPI"
    return Claim("CPI is not influenced by the compressibility of the image.", _sentence(said), not edges)


def _rank(models: Models, first: str, other: str) -> str:
    """Return Spearman's coefficient of two quantities."""
    return f"{models.runs.frame.select(pl.corr(first, other, method='spearman')).item():.2f}".replace("-", "−")


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
            separation = models.model.separation(source, target)
            if separation is not None and separation.given:
                told.append(f"{target} given {' and '.join(separation.given)}")
    return f" (independent: {'; '.join(told)})" if told else ""


def _listed(edges: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{source} → {target}" for source, target in edges)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
