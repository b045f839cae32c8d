"""Make pictures of several kinds and sizes, as PGM files: the same from the same arguments, on every machine.

Each kind is a window of an endless picture, so that a larger one holds more of the same, and not the same in more
pixels.

    make_images.py --widths 128,256 --heights 128,256 FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_SEED = 20
_GLYPH = 8  # pixels of a letter's cell, each way


def _spectrum(rows: int, columns: int, chance: np.random.Generator, power: float) -> Values:
    """Return noise whose amplitude falls with this power of the frequency, of mean 0 and standard deviation 1.

    It is made of random numbers in place, not of random phases: numpy's generator gives the same numbers everywhere.
    """
    side = 2 ** int(np.ceil(np.log2(max(rows, columns))))
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    gain = (
        np.maximum(frequency, 1 / 64) ** -power
    )  # what is longer than 64 pixels is not stronger: windows of all sizes are alike
    field = np.fft.irfft2(np.fft.rfft2(chance.normal(size=(side, side))) * gain, s=(side, side))
    field -= field.mean()
    return np.asarray(field / field.std())[:rows, :columns]


def _photograph(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return a scene as photographs hold: amplitude falls as the frequency rises, with a sensor's noise."""
    return 120 + 40 * _spectrum(rows, columns, chance, 1.5) + chance.normal(0, 1.5, (rows, columns))


def _texture(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return gravel or grass: much of it is fine."""
    return 128 + 35 * _spectrum(rows, columns, chance, 0.6)


def _gradient(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return a smooth wave, as of a sky or a lamp's light."""
    across, down = 2 * np.pi * chance.uniform(1 / 160, 1 / 120, 2)
    waves = 60 * np.sin(across * np.arange(columns)[None] + 0.4) + 50 * np.cos(down * np.arange(rows)[:, None])
    return np.asarray(128 + waves)


def _noise(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return incompressible noise: every value equally likely."""
    return chance.integers(0, 256, (rows, columns)).astype(np.float64)


def _cartoon(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return flat areas with sharp borders: six grey levels of a smooth field."""
    levels = np.digitize(_spectrum(rows, columns, chance, 2.5), (-1.2, -0.5, 0.0, 0.6, 1.3))
    return np.asarray(np.array([20.0, 70.0, 110.0, 160.0, 205.0, 245.0])[levels])


def _text(rows: int, columns: int, chance: np.random.Generator) -> Values:
    """Return dark letters on white paper: glyphs of an alphabet of 40, spaces, a blank row between lines."""
    alphabet = np.zeros((40, _GLYPH, _GLYPH))
    alphabet[:, 1:7, 1:6] = chance.random((40, 6, 5)) < 0.45
    down, across = -(-rows // _GLYPH), -(-columns // _GLYPH)
    letters = (
        alphabet[chance.integers(0, 40, (down, across))] * (chance.random((down, across)) < 0.82)[:, :, None, None]
    )
    page = letters.transpose(0, 2, 1, 3).reshape(down * _GLYPH, across * _GLYPH)
    return np.asarray(245 - 225 * page)[:rows, :columns]


KINDS: Mapping[str, Callable[[int, int, np.random.Generator], Values]] = MappingProxyType(
    {
        "photograph": _photograph,
        "texture": _texture,
        "gradient": _gradient,
        "noise": _noise,
        "cartoon": _cartoon,
        "text": _text,
    }
)
"""Kinds of pictures, and what makes each of rows, columns and random numbers."""


def picture(kind: str, width: int, height: int) -> NDArray[np.uint8]:
    """Return a picture.

    `width`, `height`: In pixels, at least 1.
    Result: array of uint8, shape (height, width). Grey levels from 0 to 255.
    """
    chance = np.random.default_rng([_SEED, list(KINDS).index(kind), width, height])
    return np.clip(np.rint(KINDS[kind](height, width, chance)), 0, 255).astype(np.uint8)


def pgm(levels: NDArray[np.uint8]) -> bytes:
    """Return a picture of shape (height, width) as a binary PGM file."""
    height, width = levels.shape
    return b"P5\n%d %d\n255\n" % (width, height) + levels.tobytes()


def main() -> None:
    """Write a file KIND-WIDTHxHEIGHT.pgm of every kind and size that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--widths", required=True, help="in pixels, separated by commas")
    parser.add_argument("--heights", required=True)
    parser.add_argument("--kinds", default=",".join(KINDS), help="all, unless told otherwise")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    for kind in arguments.kinds.split(","):
        for width in map(int, arguments.widths.split(",")):
            for height in map(int, arguments.heights.split(",")):
                (arguments.folder / f"{kind}-{width}x{height}.pgm").write_bytes(pgm(picture(kind, width, height)))


if __name__ == "__main__":
    main()
