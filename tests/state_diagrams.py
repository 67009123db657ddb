"""Tables of transitions as diagrams of Mermaid's, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def state_diagram(
    first: str,
    transitions: Iterable[tuple[str, str, str]],
    over: Iterable[str],
    group: tuple[str, Sequence[str]] = ("", ()),
) -> str:
    """Draw a table; a transition that leaves a state as it is is not drawn.

    Args:
        first: the state in which each life begins.
        transitions: of each the state, the event and the next state.
        over: the states in which a life is over.
        group: a name for several states, and these states. An event that leads from all of them to
            one state has one arrow.
    """
    name, members = group
    moves = dict.fromkeys(each for each in transitions if each[0] != each[2])
    arrows: dict[tuple[str, str], dict[str, None]] = {}
    for old, event, new in moves:
        shared = old in members and all((each, event, new) in moves for each in members)
        arrows.setdefault((name if shared else old, new), {})[event] = None
    inside, outside = [], []
    for (old, new), events in arrows.items():
        within = old in members and new in members
        (inside if within else outside).append(f"{old} --> {new} : {'<br>'.join(events)}")
    lines = [f"[*] --> {first}"]
    if members:
        lines += [f"state {name} {{", *(f"    {line}" for line in inside), "}"]
    lines += [*outside, *(f"{state} --> [*]" for state in over)]
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in lines), ""])
