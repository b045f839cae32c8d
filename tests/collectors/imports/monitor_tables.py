"""Tables of monitors as they write them: headings, units, marks of missing values, and rows of devices."""

from __future__ import annotations

ROWS = 12


def _sample(form: str, rows: int = ROWS) -> str:
    return "".join(form.format(at=at, up=at * at + 7) for at in range(rows))


PCM = (
    "System,System,System,System,Socket 0,Socket 0,Socket 0,Proc Energy (Joules),\n"
    "Date,Time,IPC,INST,L3MISS,READ,TEMP,SKT0,\n"
    + _sample("2024-05-01,23:59:{at:02}.250,1.{at:02},{up},0.5{at},2.{at},N/A,3{at}.5,\n")
)
PCM_MEMORY = ",,SKT0,SKT0,SKT0,System,System\nDate,Time,Ch0Read,Ch1Read,Mem Read (MB/s),Read,Memory\n" + _sample(
    "2024-05-01,10:00:{at:02}.168,  156.7{at},,  714.5{at},   115{at}.99,   1779.16\n"
)
DSTAT = (
    '"Dstat 0.7.2 CSV output"\n'
    '"Author:","A <a@b.org>",,,,"URL:","http://b.org/"\n'
    '"Host:","h",,,,"User:","u"\n'
    '"Cmdline:","dstat -T -cdy --output d.csv",,,,"Date:","09 Jun 2021 18:59:00 UTC"\n\n'
    '"epoch","total cpu usage",,,"dsk/total",,"system",,"memory usage"\n'
    '"epoch","usr","sys","idl","read","writ","int","csw","used"\n'
    + "1623265140.892,0.1,0.5,99.5,7.0,0.0,27.0,2.0,2.05011812352e+11\n"
    + "".join(
        f"16232651{41 + at}.892,{at}.5,0.5,99.5,{at * 1000}.0,0.0,{at}7.0,2.0,2.05011812352e+11\n" for at in range(ROWS)
    )
)
SADF = (
    "# hostname;interval;timestamp;CPU;%user;%idle\n"
    + _sample("h;1;2026-01-31 23:59:{at:02} UTC;-1;9{at}.00;0.50\nh;1;2026-01-31 23:59:{at:02} UTC;0;8{at}.00;1.00\n")
    + "h;-1;2026-01-31 23:59:59 UTC;LINUX-RESTART\t(2 CPU)\n"
    + "# hostname;interval;timestamp;INTR;CPU*\nh;1;2026-01-31 23:59:00 UTC;sum;837.00;384.00;453.00\n"
    + "# hostname;interval;timestamp;pgpgin/s;kbmemfree\n"
    + _sample("h;1;2026-01-31 23:59:{at:02} UTC;{up}.00;130{up}\n")
)
SADF_H = "# hostname;interval;timestamp;CPU;%user;%idle[...];kbmemfree\n" + _sample(
    "h;1;{at};-1;9{at}.00;0.50;0;8{at}.00;1.00;130{up}\n"
)
COLLECTL = (
    "waiting for 1 second sample...\n"
    + "#" * 80
    + "\n# Collectl:   V4.3.1-1  HiRes: 1  Options: -scmd -P\n"
    + "#Date Time [CPU]User% [CPU]Ctx/sec [CPU]ProcRun [MEM]Free [DSK]ReadKBTot [DSK]OpsTot\n"
    + _sample("20261129 03:56:{at:02} 9{at} {up} 4 {up}036956 {at} 1\n")
)
NVIDIA = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu, pstate\n"
    + _sample(
        "2024/10/30 18:42:{at:02}.189, 0, NVIDIA A100, {at} %, {up} MiB, 22.8{at} W, 4{at}, P0\n"
        "2024/10/30 18:42:{at:02}.191, 1, NVIDIA A100, 8{at} %, 1{up} MiB, [N/A], 5{at}, P0\n"
    )
)
DMON_HEAD = (
    "#Date       Time        gpu    pwr  gtemp  mtemp     sm   mclk\n"
    "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %    MHz\n"
)
DMON = DMON_HEAD + _sample(
    " 20240501   10:00:{at:02}      0    117     4{at}      -     1{at}   2847\n"
    " 20240501   10:00:{at:02}      1    118     3{at}      -     2{at}   2847\n"
).replace(" 20240501   10:00:06      0", DMON_HEAD + " 20240501   10:00:06      0")
VMSTAT = (
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 CET\n"
    + _sample(
        "10  0      0 130{up} 110356 8869480  0  0 {up} 1851 454 1{at}01 62  6 32  0  0 2026-11-29 03:56:{at:02}\n"
    )
)

MONITORS = {
    "pcm": PCM,
    "dstat": DSTAT,
    "sadf": SADF,
    "collectl": COLLECTL,
    "nvidia-smi": NVIDIA,
    "nvidia-dmon": DMON,
    "vmstat": VMSTAT,
}
"""A table for each recipe, by its name."""
