# SPDX-License-Identifier: Apache-2.0
"""A job's state in sentences: what it waits for, and what would help. The words are those of `lanemq explain`."""

from __future__ import annotations

from .types import Explanation, Status


def explain(status: Status) -> Explanation:
    what, help = _of_state(status)
    lane = f" of lane {_quoted(status.lane)}" if status.lane else ""
    return Explanation(status, f"Job {_plain(status.id)}{lane} {what}", help)


def _plain(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def _quoted(name: str) -> str:
    return f'"{_plain(name)}"'


def _duration(seconds: float) -> str:
    ms = round(seconds * 1000)
    if ms < 1000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms // 1000}.{ms % 1000 // 100}s"
    if ms < 3_600_000:
        return f"{ms // 60_000}m{ms // 1000 % 60:02}s"
    return f"{ms // 3_600_000}h{ms // 60_000 % 60:02}m"


def _until(status: Status, known: str, unknown: str) -> str:
    return unknown if status.eta is None else known + _duration(status.eta)


def _of_state(status: Status) -> tuple[str, str]:
    state = status.state
    if state in ("queued", "delayed"):
        return _waits(status, status.blocked_by or "")
    if state == "running":
        at = f" at worker {_quoted(status.worker)}" if status.worker else ""
        return f"runs{at}, attempt {status.attempts}.", "lanemq fetch ID --wait 30s waits for its answer."
    if state == "succeeded":
        return "has succeeded.", "lanemq fetch ID prints its answer."
    if state == "cancelled":
        return "was cancelled.", ""
    if state == "expired":
        return (f"ended because its time was over{_error(status)}.",
                "A longer --timeout or a higher lane helps; lanemq stats shows what the lane waits.")
    if state == "failed":
        refused = str(status.error.get("message", "")).startswith("upstream_auth: ")
        return (f"has failed{_error(status)}.", "The key is the worker's: give lanemq-worker the right one and restart it; the "
                f"upstream's message says what is wrong with this one. lanemq redrive {_plain(status.id)} runs it again."
                if refused else "")
    if state == "unknown":
        return ("is not known: no such job came, or it has ended and is no longer kept.",
                "A job that is to be found longer is submitted with a longer retain_ms.")
    return f"is {_plain(state)}.", ""


def _error(status: Status) -> str:
    code, message = status.error.get("code", ""), status.error.get("message", "")
    return f": {_plain(code)}{f', {_plain(message)}' if message else ''}" if code else ""


def _waits(status: Status, blocker: str) -> tuple[str, str]:
    kind, _, rest = blocker.partition(" ")
    if kind == "worker" and rest.endswith(" alone"):
        return (f"waits for a worker that serves {_quoted(rest.removesuffix(' alone'))} and holds nothing else: "
                "a worker was lost that had this job and others, and any of them may be why.",
                "It goes as any again when it is known which one was; one more worker for that service lets others "
                "go on meanwhile.")
    if kind == "worker" and rest:
        return (f"waits for a free place at a worker that serves {_quoted(rest)}.",
                "Start a worker for that service, or give one more --capacity; lanemq stats shows the places.")
    if blocker.startswith("no worker "):
        return _waits_for_worker(blocker.removeprefix("no worker "))
    if kind == "upstream" and rest:
        return _waits_for_upstream(status, rest)
    if kind == "client" and rest:
        return (f"waits because its client, {_quoted(rest.rpartition(' ')[0])}, has as many jobs at workers as it may "
                "(in_flight_max).", "It goes when one of them ends.")
    if kind == "reserve" and rest:
        name, _, limit = _cut_learnt(rest)[0].rpartition(" ")
        return (f"waits because what is left of budget {_quoted(name)} ({_plain(limit)}) is reserved for higher lanes"
                f"{_until(status, '; there may be more in ', '')}.",
                "A higher lane may use it, a higher limit helps if the upstream allows it.")
    if kind == "budget" and rest:
        return _waits_for_budget(status, rest)
    if kind == "paused" and rest:
        thing, colon, reason = rest.partition(": ")
        what, _, name = thing.partition(" ")
        return (f"waits because an operator paused {_plain(what)} {_quoted(name)}{colon}{_plain(reason)}.",
                f"lanemq resume {_plain(what)} {_plain(name)} takes the pause back.")
    if kind == "lane" and rest:
        return (f"waits for its turn: there are jobs before it in lane {_quoted(rest)} or in higher ones.",
                "Nothing is used up; a higher lane puts a job in front.")
    if blocker == "retry":
        return (f"failed at attempt {status.attempts} and waits to be tried again{_until(status, ' in ', '')}.",
                "Waiting helps if the cause passes; the log of its worker names it.")
    if not blocker:
        return "waits, and the broker does not say for what.", ""
    return f"waits for {_quoted(blocker)}{_until(status, '; that may be over in ', '')}.", ""


def _waits_for_worker(blocker: str) -> tuple[str, str]:
    service, takes_others, lane = blocker.rpartition(" lane=")
    if not takes_others:
        return (f"waits because no worker serves {_quoted(blocker)}.",
                f"Start one: lanemq-worker --service {_plain(blocker)}=HANDLER; or check the job's service for a slip of the pen.")
    draining = lane.endswith(" draining")
    what = (f"waits because no worker serves {_quoted(service)} in lane {_quoted(lane.removesuffix(' draining'))}"
            f"{' (all that do drain)' if draining else ''}.")
    start = f"lanemq-worker --service {_plain(service)}=HANDLER"
    if draining:
        return what, f"lanemq resume worker NAME ends an operator's drain (lanemq workers shows who drains); or start one: {start}."
    return what, (f"Start one that takes the lane: {start}, without --lanes; lanemq workers shows who takes which. "
                  "The reserved_slots of higher lanes are places for these alone.")


def _waits_for_upstream(status: Status, blocker: str) -> tuple[str, str]:
    blocker, _, client = blocker.partition(" client=")
    blocker, _, model = blocker.partition(" model=")
    return (f"waits because the upstream of {_quoted(blocker)} failed{f' for model {_quoted(model)}' if model else ''} and is "
            f"left alone{f', as far as client {_quoted(client)} is concerned' if client else ''}"
            f"{_until(status, '; it is tried again in ', '')}.",
            "The logs of its workers say how it failed; lanemq stats shows the upstreams in trouble.")


_LEARNT_HELP = " lanemq limits shows from what that is known, and lanemq resume budget forgets it."


def _cut_learnt(blocker: str) -> tuple[str, str, str]:
    """What is in front of `learnt=`, and what the upstream has stated or shown of the limit, if it has."""
    before, mark, learnt = blocker.rpartition(" learnt=")
    return (before, mark, learnt) if mark else (blocker, "", "")


def _waits_for_budget(status: Status, blocker: str) -> tuple[str, str]:
    if blocker.endswith(" paused by its upstream"):
        name = _quoted(blocker.removesuffix(" paused by its upstream"))
        return (f"waits because the upstream of budget {name} asked for a pause{_until(status, ', which is over in ', '')}.",
                "Waiting helps. If it happens often, the upstream allows less than the budget says: lower its limits.")
    if " paused by model=" in blocker:
        name, _, model = blocker.partition(" paused by model=")
        return (f"waits because the upstream of budget {_quoted(name)} asked for a pause of model {_quoted(model)}"
                f"{_until(status, ', which is over in ', '')}.",
                "Waiting helps, or another model. lanemq resume budget takes the upstream's word back.")
    if blocker.endswith(" keys"):
        return (f"waits because every key of budget {_quoted(blocker.removesuffix(' keys'))} was refused by its upstream and "
                f"rests, or is drained{_until(status, '; the next one is tried in ', '')}.",
                "Add a key, or see to the accounts; SIGHUP has the broker try them at once, and lanemq limits shows them.")
    blocker, _, learnt = _cut_learnt(blocker)
    name, _, limit = blocker.rpartition(" ")
    if learnt and limit == "concurrency":
        return (f"waits because the upstream of budget {_quoted(name)} takes {_plain(learnt)} jobs at once.",
                "It goes when one of them ends; a higher lane puts a job in front." + _LEARNT_HELP)
    if learnt:
        return (f"waits for budget {_quoted(name)}: not enough is left of its {_plain(limit)}, which is {_plain(learnt)} by its "
                f"upstream{_until(status, '; there may be in ', ', and what comes free goes to jobs before it')}.",
                "A higher lane puts a job in front." + _LEARNT_HELP)
    if limit == "concurrency":
        return (f"waits because as many jobs run as budget {_quoted(name)} allows at once (concurrency).",
                "It goes when one of them ends; a higher concurrency helps if the upstream allows it, a higher lane puts a job "
                "in front.")
    return (f"waits for budget {_quoted(name)}: not enough is left of its {_plain(limit)}"
            f"{_until(status, '; there may be in ', ', and what comes free goes to jobs before it')}.",
            "A higher limit helps if the upstream allows it (lanemq limits shows what is left), a higher lane puts a job in front.")
