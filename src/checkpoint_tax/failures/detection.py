"""Which kind of log a file is."""

import json
import re

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.lines import Source
from checkpoint_tax.failures.readers import incidents, node_events, sacct, wandb_runs
from checkpoint_tax.failures.readers.tables import find_roles, header_of

#: What each kind is.
KINDS = {
    "sacct": "Slurm accounting, sacct -P with or without -D",
    "sacctmgr": "Slurm node events, sacctmgr show event -P",
    "incidents": "a CSV file of incidents",
    "pager": "JSON lines of a pager",
    "wandb": "a wandb export of runs",
    "workers": "logs of torchelastic agents and NCCL workers",
    "pytorchjob": "status of Kubernetes PyTorchJobs in YAML",
}
_OTHER_NAMES = {
    "slurm": "sacct", "sacctmgr-event": "sacctmgr", "events": "sacctmgr", "incident": "incidents",
    "csv": "incidents", "incident-csv": "incidents", "incidents-csv": "incidents",
    "jsonl": "pager", "json-lines": "pager", "jsonlines": "pager", "json": "pager",
    "wandb-runs": "wandb", "wandb-csv": "wandb", "torchelastic": "workers", "nccl": "workers",
    "worker": "workers", "elastic": "workers", "kubernetes": "pytorchjob", "k8s": "pytorchjob",
    "yaml": "pytorchjob",
}  # fmt: skip
_LINES = 400
_JOB = re.compile(
    r"^\s*-?\s*\"?kind\"?\s*:\s*\"?(PyTorchJob|Pod|PodList|PyTorchJobList|MPIJob|TrainJob)\b"
    r"|^\s*replicaStatuses\s*:|^\s*apiVersion\s*:\s*kubeflow\.org|^\s*containerStatuses\s*:"
)
_WORKER = re.compile(
    r"torch[./]distributed|ProcessGroupNCCL|\bNCCL (INFO|WARN)\b|torchelastic|torchrun|\bXid\b"
    r"|failed \(exitcode|[Ww]orker ?group|^\[?[IWEFC]\d{3,4} \d\d:\d\d:\d\d"
)


def kind_named(name: str) -> str:
    """Find a kind by the name that a user gives it.

    Parameters
    ----------
    name : str
        One of `KINDS` or a usual other name.

    Returns
    -------
    str

    Raises
    ------
    InputError
        If no kind has that name.
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    kind = _OTHER_NAMES.get(plain, plain)
    if kind not in KINDS:
        raise InputError(f"kind = {name!r} is not a kind of log; allowed: {', '.join(KINDS)}.")
    return kind


def detect_kind(source: Source, mapping: dict[str, str]) -> tuple[str, str]:
    """Find out the kind of a log by its first lines.

    Parameters
    ----------
    source : Source
        The log.
    mapping : dict of str to str
        The user's column to role.

    Returns
    -------
    kind : str
        One of `KINDS`.
    why : str
        What it was recognised by.

    Raises
    ------
    InputError
        If the lines look like none of them.
    """
    first = ""
    workers = 0
    for number, text in source.lines(silent=True):
        if number > _LINES:
            break
        if not first and text.strip():
            first = text.strip()
        if _JOB.search(text):
            return "pytorchjob", f"line {number} names a Kubernetes job or pod"
        workers += bool(_WORKER.search(text))
    if first.startswith(("{", "[{")) or first == "[":
        body = first.removeprefix("[").rstrip(",]")
        try:
            is_object = first == "[" or isinstance(json.loads(body), dict)
        except ValueError:
            is_object = first.startswith('{"')
        if is_object:
            return "pager", "its first line is a JSON object"
    own = dict(mapping)
    for kind, names, needed in (
        ("sacct", sacct.COLUMNS, sacct.NEEDED),
        ("sacctmgr", node_events.COLUMNS, node_events.NEEDED),
        ("wandb", wandb_runs.COLUMNS, wandb_runs.NEEDED),
    ):
        if set(own.values()) - set(names):
            continue
        found = header_of(source, names, needed, own)
        if found is None:
            continue
        plain = {column.strip().lower().replace("_", "") for column in found[2]}
        if kind == "sacct" and not plain & {"jobid", "jobidraw"} and not mapping:
            continue
        if kind == "sacctmgr" and not ({"timestart", "nodename"} <= plain or found[1] == "|"):
            continue
        if kind == "wandb" and not plain & {"runtime", "step", "heartbeatat", "wandbruntime"}:
            continue
        return kind, f"the columns of line {found[0]}"
    found = header_of(source, incidents.COLUMNS, incidents.NEEDED, own, (",", ";", "\t", "|"))
    if found is not None and (len(find_roles(found[2], incidents.COLUMNS, own)) > 1 or not workers):
        return "incidents", f"the columns of line {found[0]}"
    if workers:
        return "workers", "lines of torch.distributed or NCCL"
    raise InputError(
        f"{source.path}: the kind of log is not recognised; name it with --kind"
        f" ({', '.join(KINDS)}), and columns of your own with --map COLUMN=NAME."
    )
