# SPDX-License-Identifier: Apache-2.0
"""Runs the rules for ends against a worker's or a client's command, several at a time, and prints a table."""

import concurrent.futures
import fnmatch
import os
import sys

import zmq

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import client_rules  # noqa: E402
import worker_rules  # noqa: E402
from trial import FAIL, PASS, SKIP, judge  # noqa: E402

KINDS = {"worker": (worker_rules.RULES, worker_rules.WorkerTrial), "client": (client_rules.RULES, client_rules.ClientTrial)}
AT_ONCE = 8  # they wait for clocks more than they work


def verdicts(page, kind, command, rules):
    """In the order of the rules, each as soon as those before it are known."""
    context = zmq.Context()
    make = KINDS[kind][1]
    pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    try:
        started = {rule: pool.submit(judge, rule, lambda: make(page, context, command))
                   for rule in sorted(rules, key=lambda rule: not rule.slow)}
        for rule in rules:
            yield started[rule].result()
    finally:
        pool.shutdown(cancel_futures=True)
        context.term()


def chosen_rules(page, kind, pattern):
    """The rules that match, in the order of the page. LookupError where there is none, or a rule's section is not on the page."""
    rules = KINDS[kind][0]
    missing = sorted({rule.section for rule in rules} - set(page.sections))
    if missing:
        raise LookupError(f"rules name sections that are not on the page: {', '.join(missing)}")
    chosen = [rule for rule in rules if fnmatch.fnmatch(rule.name, pattern or "*")]
    if not chosen:
        raise LookupError(f"no rule for a {kind} matches {pattern!r}; --list shows them")
    return sorted(chosen, key=lambda rule: page.sections.index(rule.section))


def list_rules(rules):
    for rule in rules:
        print(f"{rule.name}  [{rule.section}]\n    {rule.text}")
    return 0


def run(page, kind, command, rules):
    """Prints the verdicts and a table of them; the exit code."""
    placeholder = KINDS[kind][1].placeholder
    if placeholder not in command:
        print(f"run: the command of a {kind} names its endpoint as {placeholder}: --{kind} 'CMD {placeholder}'", file=sys.stderr)
        return 2
    print(f"the {kind} under test: {command}", file=sys.stderr, flush=True)
    count = dict.fromkeys((PASS, FAIL, SKIP), 0)
    rows = []
    for verdict in verdicts(page, kind, command, rules):
        rule = verdict.rule
        count[verdict.kind] += 1
        rows.append((verdict.kind, rule.name, rule.section, verdict.seen))
        print(f"{verdict.kind}  {rule.name}: {rule.text}", flush=True)
        if verdict.kind == FAIL:
            print("      section: " + rule.section + "\n      seen: " + verdict.seen.replace("\n", "\n      "))
            for line in verdict.log:
                print("        " + line)
            sys.stdout.flush()
    print_table(rows)
    print(f"\n{count[PASS]} pass, {count[FAIL]} fail, {count[SKIP]} skipped")
    return 1 if count[FAIL] else 0


def print_table(rows):
    widths = [max(len(row[i]) for row in (("", "rule", "section"), *rows)) for i in range(3)]
    print(f"\n{'':{widths[0]}}  {'rule':{widths[1]}}  {'section':{widths[2]}}  seen")
    for kind, name, section, seen in rows:
        first = seen.splitlines()[0] if seen else ""
        print(f"{kind:{widths[0]}}  {name:{widths[1]}}  {section:{widths[2]}}  {first[:100]}".rstrip())
