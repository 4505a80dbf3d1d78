"""Which class a failure belongs to, from the words that a log uses for it."""

import re

INFRASTRUCTURE, APPLICATION, PLANNED, UNKNOWN = CLASSES = (
    "infrastructure",
    "application",
    "planned",
    "unknown",
)

_PLANNED = re.compile(
    r"(?<!un)(?<!un-)(?<!not )\b(planned|scheduled)\b|\bmaint(enance)?\b|\bupgrad|\bfirmware update"
    r"|\bdecommission|\brolling (reboot|update)|\bdrill\b|\bpower(ed)?.?down.*(idle|saving)"
    r"|\breservation\b",
    re.IGNORECASE,
)
_UNPLANNED = re.compile(r"\b(un|not )-?(planned|scheduled)|\bemergency\b", re.IGNORECASE)
_APPLICATION = re.compile(
    r"\bcuda out of memory|\bOutOfMemoryError|\b(Value|Type|Key|Index|Assertion|Attribute|Import"
    r"|ModuleNotFound|FileNotFound|NotImplemented|Syntax|Name|ZeroDivision|Permission)Error\b"
    r"|\buser (code|error|bug|script)|\bapplication\b|\bassert(ion)?\b|\bloss (is |became )?nan"
    r"|\bnan (in )?loss|\bbad config|\bconfig(uration)? (error|bug|typo)|\bdata ?loader\b"
    r"|\bpython exception|\bcode bug|\bbug in (the )?(model|training|script)",
    re.IGNORECASE,
)
_INFRASTRUCTURE = re.compile(
    r"\bxid\b|\becc\b|\bnv(link|switch)|\bgpu|\bhbm\d?\b|\bsram\b|\bnics?\b|\blinks?\b|\bswitch"
    r"|\bpower|\bpsu\b|\bpdu\b|\bnccl\b|\bwatchdog|\bnode|\bhost|\breboot|\bdisk|\bssd\b"
    r"|\bnvme|\bthermal|\boverheat|\bcpu\b|\bmemory\b|\bdimm|\bkernel panic|\bnetwork|\binfiniband"
    r"|\bib\b|\broce\b|\bpcie?\b|\bfile ?system|\blustre|\bnfs\b|\bstorage|\bcool|\bfans?\b"
    r"|\brack\b|\bcable|\btransceiver|\bfirmware|\bdriver|\bhardware|\bnot responding|\bhung\b"
    r"|\bunreachable|\bdown\b|\bevicted|\bmachine|\bserver|\bheartbeat"
    r"|\blow ?real ?memory|\bsilent data",
    re.IGNORECASE,
)
_SPEAKS_OF = re.compile(r"\bxid\b|\becc\b|\bfallen off|\bhbm", re.IGNORECASE)


def is_planned(text: str) -> bool:
    """Tell whether words speak of planned work.

    Parameters
    ----------
    text : str
        Cause, reason or comment.

    Returns
    -------
    bool
        False for unplanned or emergency maintenance.
    """
    return bool(_PLANNED.search(text)) and not _UNPLANNED.search(text)


def class_of(text: str) -> str:
    """Classify a cause by its words.

    Parameters
    ----------
    text : str
        As the log writes it.

    Returns
    -------
    str
        One of `CLASSES`; ``"unknown"`` if no word is known.
    """
    if _SPEAKS_OF.search(text):
        return INFRASTRUCTURE
    if is_planned(text):
        return PLANNED
    if _APPLICATION.search(text):
        return APPLICATION
    if _INFRASTRUCTURE.search(text):
        return INFRASTRUCTURE
    return UNKNOWN


#: How serious records call themselves. What warns or informs interrupts no job.
_SERIOUS = {
    "alert", "blocker", "crit", "critical", "down", "emerg", "emergency", "err", "error", "fatal",
    "high", "highest", "major", "outage", "p0", "p1", "p2", "page", "panic", "s0", "s1", "s2",
    "sev0", "sev1", "sev2", "severe", "urgent", "0", "1", "2",
}  # fmt: skip
_HARMLESS = {
    "debug", "info", "information", "informational", "low", "lowest", "minor", "none", "notice",
    "ok", "p3", "p4", "p5", "s3", "s4", "s5", "sev3", "sev4", "sev5", "trivial", "warn", "warning",
    "medium", "moderate", "normal", "3", "4", "5",
}  # fmt: skip


def is_serious(severity: str) -> bool | None:
    """Tell whether a severity means an interruption.

    Parameters
    ----------
    severity : str
        As the log writes it.

    Returns
    -------
    bool or None
        None if the word is not known.
    """
    word = re.sub(r"[^a-z0-9]", "", severity.lower())
    if word in _SERIOUS:
        return True
    return False if word in _HARMLESS else None
