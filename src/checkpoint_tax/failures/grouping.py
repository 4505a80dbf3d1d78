"""Several records of one event become one interruption of the job."""

from collections.abc import Sequence
from dataclasses import dataclass

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.events import WHOLE_CLUSTER, Incident
from checkpoint_tax.units import MINUTE_S, duration_text

#: Records that start this long after the first of a group still belong to it [s].
WINDOW_S = 10 * MINUTE_S


@dataclass(slots=True)
class Group:
    """Records of one interruption.

    Attributes
    ----------
    incidents : list of Incident
        By start; the first is the one the others are merged into.
    reasons : list of str
        Why each belongs.
    start_s : float
        Of the first [s since 1970].
    end_s : float or None
        Last known end of any of them.
    is_open : bool
        None of them has an end, and one says that it goes on.
    nodes, places : set of str
        Of all.
    """

    incidents: list[Incident]
    reasons: list[str]
    start_s: float
    end_s: float | None
    is_open: bool
    nodes: set[str]
    places: set[str]


def merge(incidents: Sequence[Incident], window_s: float = WINDOW_S) -> list[Group]:
    """Group records of one event.

    A record joins a group if it starts within the window of the group's first record and, where
    both say where in the topology they are, they share a place or a node; or if it starts while
    the group's outage of the same node, or of the whole cluster, lasts. The window is counted
    from the first record, so that a long series of records does not run together.

    Parameters
    ----------
    incidents : sequence of Incident
        Those with a start are grouped.
    window_s : float
        Not negative [s]; 0 merges only what starts at once or is nested.

    Returns
    -------
    list of Group
        By start.

    Raises
    ------
    InputError
        If the window is negative or not a number.
    """
    if not 0.0 <= window_s < float("inf"):
        raise InputError(f"window = {window_s:g} [s] is refused; allowed: finite, at least 0.")
    timed = sorted(
        (incident for incident in incidents if incident.start_s is not None),
        key=lambda incident: (incident.start_s, incident.line),
    )
    groups: list[Group] = []
    lasting: list[Group] = []
    for incident in timed:
        start_s = incident.start_s
        assert start_s is not None
        lasting = [
            group
            for group in lasting
            if start_s - group.start_s <= window_s
            or (group.end_s is not None and start_s < group.end_s)
            or group.is_open
        ]
        found = next(
            ((group, why) for group in lasting if (why := _why(incident, group, window_s))), None
        )
        if found is None:
            group = Group(
                [incident], [""], start_s, incident.end_s, incident.is_open,
                set(incident.nodes), set(incident.places),
            )  # fmt: skip
            groups.append(group)
            lasting.append(group)
            continue
        group, why = found
        group.incidents.append(incident)
        group.reasons.append(why)
        group.nodes |= incident.nodes
        group.places |= incident.places
        if incident.end_s is not None:
            group.end_s = max(group.end_s or incident.end_s, incident.end_s)
        group.is_open = group.end_s is None and (group.is_open or incident.is_open)
    return groups


def _why(incident: Incident, group: Group, window_s: float) -> str:
    assert incident.start_s is not None
    later_s = incident.start_s - group.start_s
    line = group.incidents[0].line
    same_nodes = incident.nodes & group.nodes
    everywhere = bool(WHOLE_CLUSTER & (incident.nodes | group.nodes))
    if incident.incident_id and later_s <= window_s and any(
        incident.incident_id == other.incident_id for other in group.incidents
    ):  # fmt: skip
        return f"the same incident as line {line}"
    if later_s <= window_s:
        shared = sorted(incident.places & group.places)
        if shared:
            return f"{duration_text(later_s)} after line {line}, same {shared[0]}"
        if same_nodes:
            return f"{duration_text(later_s)} after line {line}, same node {min(same_nodes)}"
        if incident.places and group.places and not everywhere:
            return ""
        return f"{duration_text(later_s)} after line {line}"
    lasts = group.is_open or (group.end_s is not None and incident.start_s < group.end_s)
    if lasts and same_nodes:
        return f"nested in the outage of {min(same_nodes)} in line {line}"
    if lasts and WHOLE_CLUSTER & group.nodes:
        return f"nested in the outage of the whole cluster in line {line}"
    return ""


def during(incident: Incident, planned: Sequence[Incident]) -> Incident | None:
    """Find the planned work during which something happened.

    Parameters
    ----------
    incident : Incident
        A failure.
    planned : sequence of Incident
        Planned work, by start; counted if it has both ends and hits the same node, every node or
        does not say.

    Returns
    -------
    Incident or None
    """
    if incident.start_s is None:
        return None
    for work in planned:
        if work.start_s is None or work.end_s is None:
            continue
        if not work.start_s <= incident.start_s < work.end_s:
            continue
        if not work.nodes or work.nodes & WHOLE_CLUSTER or work.nodes & incident.nodes:
            return work
    return None
