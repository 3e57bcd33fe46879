"""The named policies in groups, those to begin with first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eunomia.inference.policies.tuned import tuned_names

# Ten that matter, and why; of the rest, ``eunomia policies NAME`` says what each does.
START_HERE = {
    "eunomia": "learned: a score, a placement and when to hold; for scarce shared bandwidth",
    "edf+f+eft+g0.9": "the strongest simple rule: deadlines, hopeless last, earliest finish, a bandwidth gate",
    "edf+f+eft": "the same without the gate, where bandwidth is plentiful",
    "edf": "earliest deadline first: the classic, which collapses in overload",
    "sjf+f": "shortest work first: many small requests on time, large networks starve",
    "fcfs": "first come, first served: the floor",
    "lookahead": "simulates plans at every arrival; what search adds, if deciding takes no time",
    "eunomia-attainment": "learned for as many tenants' SLOs as possible",
    "triage": "the rule for tenants' SLOs: pairs just below target first",
    "weighted_fair": "shares of device time by the tenants' weights",
}
_NAMES = {
    "Learned": "eunomia eunomia-wide eunomia-attainment eunomia-shortfall eunomia-max-min relmas relmas-slo deferring",
    "Search": "lookahead magma magma_10k",
    "Tenants' SLOs": "triage gap_first worst_first shift pledge fair_edf weighted_fair triage_edf triage_sjf "
    "gap_first_edf gap_first_sjf worst_first_edf worst_first_sjf shift_edf shift_sjf deficit_edf deficit_llf",
    "Published": "prema herald planaria moca moca_split aurora dream dream_drop dysta virtual_deadlines veltair "
    "layerweaver irina olympian",
}
GROUPS = {group: tuple(names.split()) for group, names in _NAMES.items()}
RULES = "Rules"  # all others


def grouped(words: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """First lines of ``words`` (name -> text) by group: those to begin with, rules, and the groups above."""
    of = {name: group for group, names in GROUPS.items() for name in names}
    order = (RULES, "Tenants' SLOs", "Published", "Search", "Learned")
    found: dict[str, dict[str, str]] = {group: {} for group in order}
    for name, text in words.items():
        found[of.get(name, RULES)][name] = text.split("\n")[0].replace("``", "")
    return {"Start here": dict(START_HERE), **found}


def ungrouped(names: Sequence[str]) -> list[str]:
    """Names of policies with ``published`` and ``published+tuned`` (those with settings) written out; each once."""
    published = GROUPS["Published"]
    members = {
        "published": published,
        "published+tuned": [f"{each}+tuned" for each in published if each in tuned_names()],
    }
    return list(dict.fromkeys(one for name in names for one in members.get(name, [name])))
