"""Whether a model of Verilator's has one clock and nothing else that starts anything.

Then the driver does by itself what ``eval`` would find out twice a cycle: at the rising edge registers take their
values, at the falling one, after which no register moves, what follows from new inputs is computed. Every function that
takes part is compared with what Verilator writes for such a design, and where one differs the driver calls ``eval``.
"""

from __future__ import annotations

import re
from pathlib import Path

_TOP = "Vtop___024root___"
_FUNCTION = re.compile(rf"^[\w ]*\b{_TOP}(\w+)\(([^(){{}};]*)\) \{{\n(.*?)\n\}}\n", re.MULTILINE | re.DOTALL)
_NOISE = re.compile(
    r"#ifdef VL_DEBUG\n.*?#endif[^\n]*\n|VL_DEBUG_IF\(.*?\); \);|/\*.*?\*/|//[^\n]*"
    r"|Vtop__Syms\* const __restrict vlSymsp VL_ATTR_UNUSED = vlSelf->vlSymsp;"
    r"|auto& vlSelfRef = std::ref\(\*vlSelf\)\.get\(\);|\s+",
    re.DOTALL,
)
_ANY_SET = "IDatan;n=0U;do{if(in[n]){return(1U);}n=((IData)(1U)+n);}while((1U>n));return(0U);"
_PLAIN = {
    "eval_triggers_vec__ico": "vlSelfRef.__VicoTriggered[0U]=((0xfffffffffffffffeULL&vlSelfRef.__VicoTriggered[0U])"
    "|(IData)((IData)(vlSelfRef.__VicoFirstIteration)));",
    "trigger_anySet__ico": _ANY_SET,
    "eval_phase__ico": "CData__VicoExecute;TOPeval_triggers_vec__ico(vlSelf);"
    "__VicoExecute=TOPtrigger_anySet__ico(vlSelfRef.__VicoTriggered);if(__VicoExecute){TOPeval_ico(vlSelf);}"
    "return(__VicoExecute);",
    "eval_triggers_vec__act": "vlSelfRef.__VactTriggered[0U]=(QData)((IData)(((IData)(vlSelfRef.clk)"
    "&(~(IData)(vlSelfRef.__Vtrigprevexpr___TOP__clk__0)))));vlSelfRef.__Vtrigprevexpr___TOP__clk__0=vlSelfRef.clk;",
    "trigger_anySet__act": _ANY_SET,
    "trigger_orInto__act_vec_vec": "IDatan;n=0U;do{out[n]=(out[n]|in[n]);n=((IData)(1U)+n);}while((0U>=n));",
    "trigger_clear__act": "IDatan;n=0U;do{out[n]=0ULL;n=((IData)(1U)+n);}while((1U>n));",
    "eval_phase__act": "TOPeval_triggers_vec__act(vlSelf);"
    "TOPtrigger_orInto__act_vec_vec(vlSelfRef.__VnbaTriggered,vlSelfRef.__VactTriggered);return(0U);",
    "eval_phase__nba": "CData__VnbaExecute;__VnbaExecute=TOPtrigger_anySet__act(vlSelfRef.__VnbaTriggered);"
    "if(__VnbaExecute){TOPeval_nba(vlSelf);TOPtrigger_clear__act(vlSelfRef.__VnbaTriggered);}return(__VnbaExecute);",
    "eval": "IData__VicoIterCount;IData__VnbaIterCount;__VicoIterCount=0U;vlSelfRef.__VicoFirstIteration=1U;do{LIMIT"
    "__VicoIterCount=((IData)(1U)+__VicoIterCount);vlSelfRef.__VicoPhaseResult=TOPeval_phase__ico(vlSelf);"
    "vlSelfRef.__VicoFirstIteration=0U;}while(vlSelfRef.__VicoPhaseResult);__VnbaIterCount=0U;do{LIMIT"
    "__VnbaIterCount=((IData)(1U)+__VnbaIterCount);vlSelfRef.__VactIterCount=0U;do{LIMIT"
    "vlSelfRef.__VactIterCount=((IData)(1U)+vlSelfRef.__VactIterCount);"
    "vlSelfRef.__VactPhaseResult=TOPeval_phase__act(vlSelf);}while(vlSelfRef.__VactPhaseResult);"
    "vlSelfRef.__VnbaPhaseResult=TOPeval_phase__nba(vlSelf);}while(vlSelfRef.__VnbaPhaseResult);",
}
_LIMIT = re.compile(r'if\(VL_UNLIKELY\(\(\([^{]*\)\)\)\)\{VL_FATAL_MT\("[^{}]*"\);\}')
_CALL = re.compile(r"\b(\w+___\w+)\(")
_CLOCK = re.compile(r"\bclk\b")


def has_one_edge(model: Path) -> bool:
    """Whether nothing but a rising edge of ``clk`` moves a register, and nothing but registers follows from ``clk``.

    Args:
        model: The folder of the generated model.
    """
    bodies: dict[str, str] = {}
    follows = []  # what is computed whenever an input may have changed
    for source in sorted(model.glob("Vtop_*.cpp")):
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        follows += re.findall(r"^void \w+___ico_\w+\(.*?^\}\n", text, re.MULTILINE | re.DOTALL)
        for name, _, body in _FUNCTION.findall(text):
            if (name in _PLAIN or name == "eval_ico") and bodies.setdefault(name, body) != body:
                return False
    # A model in which nothing follows from an input has neither this nor the same "eval".
    inputs = _NOISE.sub(" ", bodies.pop("eval_ico", ""))
    plain = {name: _LIMIT.sub("LIMIT", _NOISE.sub("", body)).replace(_TOP, "TOP") for name, body in bodies.items()}
    if plain != _PLAIN or any("___ico_" not in name for name in _CALL.findall(inputs)):
        return False
    return not any(_CLOCK.search(text) for text in (inputs, *follows))
