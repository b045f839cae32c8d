"""What perf 7.2 and 6.1 list, cut down: their layout, a few of their entries, and descriptions of our own."""

from __future__ import annotations

import json

SUM = r"topdown\-fe\-bound + topdown\-bad\-spec + topdown\-retiring + topdown\-be\-bound"


def _metric(name: str, formula: str, group: str = "TopdownL1", unit: str = "default_core") -> dict[str, str]:
    return {
        "MetricGroup": group,
        "MetricName": name,
        "MetricExpr": formula,
        "ScaleUnit": "100%",
        "BriefDescription": f"own words on {name}",
        "Unit": unit,
    }


def _event(name: str, encoding: str, unit: str = "cpu") -> dict[str, str]:
    return {"Unit": unit, "EventName": name, "EventType": "Kernel PMU event", "Encoding": f"{unit}/{encoding}/"}


SAPPHIRE_RAPIDS = json.dumps(
    [
        {"EventName": "slots", "EventAlias": "cpu/slots/", "Encoding": "cpu/event=0x00,umask=0x4/", "Unit": "cpu"},
        _event("br_inst_retired.near_taken", "event=0xc4,period=400009,umask=0x20"),
        _event("inst_retired.any", "event=0xc0,period=2000003"),
        _event("int_misc.uop_dropping", "event=0xad,period=1000003,umask=0x10"),
        _event("topdown.slots", "event=0,period=10000003,umask=4"),
        _event("uops_executed.thread", "event=0xb1,period=2000003,umask=0x1"),
        _event("uops_executed.core_cycles_ge_1", "event=0xb1,cmask=1,period=2000003,umask=0x2"),
        _event("duration_time", "config=1", "tool"),
        _event("unc_m_cas_count.rd", "event=0x5,umask=0xcf", "uncore_imc"),
        _metric("tma_retiring", rf"topdown\-retiring / ({SUM}) + 0 * slots"),
        _metric("tma_retiring", rf"topdown\-retiring / ({SUM}) + 0 * slots", "Default"),
        _metric("tma_frontend_bound", rf"topdown\-fe\-bound / ({SUM}) - INT_MISC.UOP_DROPPING / tma_info_thread_slots"),
        _metric("tma_backend_bound", rf"topdown\-be\-bound / ({SUM})"),
        _metric("tma_bad_speculation", "max(1 - (tma_frontend_bound + tma_backend_bound + tma_retiring), 0)"),
        _metric("tma_info_thread_slots", "TOPDOWN.SLOTS", "Slots"),
        _metric("tma_info_inst_mix_bptkbranch", "INST_RETIRED.ANY / BR_INST_RETIRED.NEAR_TAKEN", "Branches;Fed"),
        _metric(
            "tma_info_core_ilp",
            "UOPS_EXECUTED.THREAD / (UOPS_EXECUTED.CORE_CYCLES_GE_1 / 2 if #SMT_on else "
            "UOPS_EXECUTED.CORE_CYCLES_GE_1)",
            "Backend",
        ),
        _metric("dropped_often", r"cpu@INT_MISC.UOP_DROPPING\,cmask\=2\,edge@ / INST_RETIRED.ANY:k", "Own"),
        _metric("gflops", "INST_RETIRED.ANY / duration_time", "Own"),
        _metric("bandwidth", "UNC_M_CAS_COUNT.RD * 64", "Own"),
        _metric("strange", "#EBS_Mode * INST_RETIRED.ANY", "Own"),
        _metric("per_unit", "source_count(UNC_M_CAS_COUNT.RD) * INST_RETIRED.ANY", "Own"),
        _metric("circle", "circle + 1", "Own"),
        _metric("bits", "INST_RETIRED.ANY | 3", "Own"),
        _metric("missing", "NO.SUCH_EVENT / 2", "Own"),
        _metric("constant", "1 - 1", "Own"),
        _metric("nameless", "cpu@@ / 2", "Own"),
    ]
)
ALDER_LAKE = json.dumps(
    [
        _event("inst_retired.any", "event=0xc0,period=2000003", "cpu_core"),
        _event("inst_retired.any", "event=0xc0,period=2000003", "cpu_atom"),
        _event("topdown_fe_bound.all", "event=0x71,period=1000003", "cpu_atom"),
        _metric("tma_frontend_bound", rf"topdown\-fe\-bound / ({SUM})", unit="cpu_core"),
        _metric("tma_frontend_bound", "TOPDOWN_FE_BOUND.ALL / (5 * cpu_atom@cycles@)", unit="cpu_atom"),
        _metric("switches", r"software@context\-switches\,name\=cs@ / INST_RETIRED.ANY + cs", unit="cpu_core"),
        _metric("per_tsc", r"INST_RETIRED.ANY / msr@tsc\,cpu\=cpu_core@", unit="cpu_core"),
    ]
)
ZEN_4 = json.dumps(
    [
        _event("ex_ret_brn_misp", "event=0xc3"),
        _event("ex_ret_brn", "event=0xc2"),
        _event("de_src_op_disp.all", "event=0xaa,umask=0x7"),
        _event("de_no_dispatch_per_slot.no_ops_from_frontend", "event=0x1a0,umask=0x1"),
        _event("ls_not_halted_cyc", "event=0x76"),
        _event("l3_lookup_state.all", "event=0x4,umask=0xff", "amd_l3"),
        _metric("branch_misprediction_ratio", "d_ratio(ex_ret_brn_misp, ex_ret_brn)", "branch_prediction"),
        _metric(
            "frontend_bound",
            "d_ratio(de_no_dispatch_per_slot.no_ops_from_frontend, (6 * ls_not_halted_cyc))",
            "PipelineL1",
        ),
        _metric("l3_accesses", "l3_lookup_state.all", "l3_cache"),
    ]
)

DETAILS_OF_6_1 = """
List of pre-defined events (to be used in -e or -M):

  slots OR cpu/slots/                                [Kernel PMU event]

pipeline:
  br_inst_retired.near_taken
       [Own words, which take
        two lines]
        cpu/event=0xc4,period=0x61a89,umask=0x20/
  inst_retired.any
       [Own words]
        cpu/event=0xc0,period=0x1e8483/


Metric Groups:

Branches:
  BpTkBranch
       [Own words on branches. Unit: cpu_core ]
       [INST_RETIRED.ANY / BR_INST_RETIRED.NEAR_TAKEN]
  UpTB
       [Own words]
       [(tma_retiring * SLOTS) / BR_INST_RETIRED.NEAR_TAKEN]
Fed:
  BpTkBranch
       [Own words on branches. Unit: cpu_core ]
       [INST_RETIRED.ANY / BR_INST_RETIRED.NEAR_TAKEN]
"""
