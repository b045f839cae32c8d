"""The clips and the pipelines that play them, as command lines of gst-launch-1.0.

Every pipeline has the same named places, at which a change can be put in: `source` (what the demuxer reads), `coded`
(pictures before the decoder), `picture` (after it), `sound`, `screen` and `speaker` (the sinks). Every property that a
change may set is set in every run, to its neutral value where nothing is changed, so that a log does not tell a change
by a property more on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FRAME_RATE = 25
"""Pictures a second of every clip."""
FRAME_MS = 1000 / FRAME_RATE
WIDTH, HEIGHT = 1280, 720
SAMPLE_RATE = 44100

NEUTRAL = {
    "source": {"sleep-time": "0"},
    "coded": {"sleep-time": "0", "drop-probability": "0", "error-after": "-1"},
    "picture": {"sleep-time": "0", "drop-probability": "0", "error-after": "-1"},
    "sound": {"sleep-time": "0", "drop-probability": "0"},
    "screen": {"ts-offset": "0"},
    "speaker": {"ts-offset": "0"},
}
"""Place → property → the value that changes nothing."""

Settings = Mapping[str, Mapping[str, str]]
"""Place → property → value, of what differs from NEUTRAL."""


@dataclass(frozen=True)
class Clip:
    """A clip that GStreamer makes itself."""

    name: str  # The test picture, as videotestsrc calls it
    wave: str  # The test sound, as audiotestsrc calls it
    frames: int  # Pictures, at `FRAME_RATE`
    # width, height: Of a picture.
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def seconds(self) -> float:
        """How long the clip plays."""
        return self.frames / FRAME_RATE


@dataclass(frozen=True)
class Pipeline:
    """A container and its codecs, and how they are played."""

    name: str  # Traces are named after it
    # suffix, muxer, demuxer: Of the container.
    suffix: str
    muxer: str
    demuxer: str
    # video_encoder, video_decoder, audio_encoder, audio_decoder: Elements with their properties; no audio: one
    # stream.
    video_encoder: str
    video_decoder: str
    audio_encoder: str = ""
    audio_decoder: str = ""
    timed: bool = True  # Whether the sinks show each buffer when it is due, or as soon as it arrives
    drops_late: bool = False  # Whether a picture that is late by more than 20 ms is not shown, as in a player's window

    @property
    def sinks(self) -> tuple[str, ...]:
        """The places where what is played arrives."""
        return ("screen", "speaker") if self.audio_decoder else ("screen",)

    def making(self, clip: Clip, file: Path) -> list[str]:
        """Return the command line that makes the clip's file."""
        samples = SAMPLE_RATE * clip.frames // FRAME_RATE
        video = [
            *f"videotestsrc num-buffers={clip.frames} pattern={clip.name} kx2=10 ky2=10 kt=5".split(),
            *f"! video/x-raw,format=I420,width={clip.width},height={clip.height},framerate={FRAME_RATE}/1".split(),
            *f"! {self.video_encoder}".split(),
            *f"! queue ! {self.muxer} name=mux ! filesink".split(),
            f"location={file}",
        ]
        audio = [
            *f"audiotestsrc wave={clip.wave} samplesperbuffer={samples // clip.frames}".split(),
            *f"num-buffers={clip.frames} ! audio/x-raw,rate={SAMPLE_RATE},channels=2 ! audioconvert".split(),
            *f"! {self.audio_encoder} ! queue ! mux.".split(),
        ]
        return ["gst-launch-1.0", "-q", *video, *(audio if self.audio_encoder else [])]

    def playing(self, file: Path, block_bytes: int, settings: Settings) -> list[str]:
        """Return the command line that plays a file, with some settings changed.

        The source reads `block_bytes` at a time: about a picture's worth, so that its waits are counted in periods of a
        picture.
        """

        def place(name: str) -> str:
            changed = settings.get(name, {})
            unknown = changed.keys() - NEUTRAL[name].keys()
            if unknown:
                raise ValueError(f"{name} has no {', '.join(sorted(unknown))} to change")
            values = {**NEUTRAL[name], **changed}
            return f"name={name} " + " ".join(f"{key}={value}" for key, value in values.items())

        reading = ["filesrc", f"location={file}", f"blocksize={block_bytes}", "!"]
        sink = f"sync={str(self.timed).lower()} silent=false"
        late = "max-lateness=20000000 qos=true" if self.drops_late else "max-lateness=-1 qos=false"
        decoding = (
            f"identity {place('coded')} ! {self.video_decoder} ! identity {place('picture')} "
            f"! videoconvert ! fakesink {place('screen')} {sink} {late}"
        )
        if not self.audio_decoder:
            return ["gst-launch-1.0", *reading, *f"{self.demuxer} ! {decoding}".split()]
        # Queues without a limit: a stream that is held up does not hold up the other one.
        free = "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0"
        streams = (
            f"queue ! identity {place('source')} ! {self.demuxer} name=demux demux. ! {free} ! {decoding} "
            f"demux. ! {free} ! {self.audio_decoder} ! identity {place('sound')} "
            f"! audioconvert ! audioresample ! fakesink {place('speaker')} {sink}"
        )
        return ["gst-launch-1.0", *reading, *streams.split()]


CLIPS = (Clip("ball", "ticks", 75), Clip("pinwheel", "sine", 80), Clip("zone-plate", "pink-noise", 90))
"""From little to decode to much."""

MPEG4 = ("avenc_mpeg4 bitrate=2000000", "avdec_mpeg4 max-threads=1")
THEORA = ("theoraenc", "theoradec")
VP8 = ("vp8enc deadline=1 cpu-used=8 target-bitrate=2000000", "vp8dec threads=1")
MP3 = ("lamemp3enc ! mpegaudioparse", "mpegaudioparse ! mpg123audiodec")
VORBIS = ("vorbisenc", "vorbisdec")

PIPELINES = (
    Pipeline("decode", ".avi", "avimux", "avidemux", *MPEG4, timed=False),
    Pipeline("avi", ".avi", "avimux", "avidemux", *MPEG4, *MP3),
    Pipeline("ogg", ".ogg", "oggmux", "oggdemux", *THEORA, *VORBIS),
    Pipeline("matroska", ".mkv", "matroskamux", "matroskademux", *VP8, *VORBIS, drops_late=True),
)
"""`decode` is the paper's: one stream, decoded as fast as it can be. The others play two streams in time; `avi` and
`ogg` show every picture, however late, `matroska` drops what is late and tells the decoder, as players do."""
