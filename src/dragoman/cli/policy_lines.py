"""Rules, verdicts and what is remembered, as lines for people."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import click

from dragoman.cli import exits
from dragoman.cli.output import LEAST_WIDTH, terminal_width
from dragoman.cli.text import exact, plain
from dragoman.config import Config
from dragoman.host.policy.access import BUILT_IN
from dragoman.host.policy.policy import EffectVerdict, describe_rule
from dragoman.host.policy.remembered import RememberedRule
from dragoman.host.policy.rules import Layer, Rule, Verdict
from dragoman.workspace import Workspace

_COLOURS: Final = {"allow": "green", "deny": "red", "ask": "yellow"}
# Longer lines are harder to read than broken ones.
_WIDEST: Final = 120


class Names:
    """File names as people know them."""

    def __init__(self, settings: Config, workspace: Workspace | None = None) -> None:
        inside = [(f"{workspace.cwd}/", "")] if workspace is not None else []
        self._shorter = [(f"{settings.home}/", ""), *inside, (f"{os.path.expanduser('~')}/", "~/")]

    def short(self, text: str) -> str:
        for long, short in self._shorter:
            text = text.replace(f"({long}", f"({short}") if text.startswith(("allow", "ask", "deny")) else text
            text = short + text[len(long) :] if text.startswith(long) else text
        return plain(text)


def print_finding(finding: EffectVerdict, names: Names) -> None:
    click.echo()
    verdict = finding.verdict
    print_wrapped(f"  {styled_answer(verdict.decision)}  ", exact(str(finding.effect)), indent=9)
    by_rule = next((each for each in finding.matches if _is_answer(verdict, *each)), None)
    lines = []
    if by_rule is not None and by_rule[1].source != BUILT_IN:
        lines.append(f"by the rule: {names.short(describe_rule(*by_rule))}, {_layer(by_rule[0])}")
        lines += [f"because: {by_rule[1].reason}"] * bool(by_rule[1].reason)
    else:
        lines.append(f"because {verdict.reason}" + ("" if verdict.rule or verdict.layer else "; no rule is about it"))
    if finding.effect.unclear:
        lines.append(f"not clear: {finding.effect.unclear}")
    for layer, rule in finding.matches:
        if describe_rule(layer, rule) != verdict.rule:
            lines.append(f"overruled: {names.short(describe_rule(layer, rule))}, {_layer(layer)}")
    for line in lines:
        print_wrapped("         ", plain(line), indent=11)


def _is_answer(verdict: Verdict, layer: Layer, rule: Rule) -> bool:
    return (verdict.layer, verdict.rule) == (layer, describe_rule(layer, rule))


def print_rule(layer: Layer, rule: Rule, names: Names) -> None:
    stands = rule.reason if rule.source == BUILT_IN else names.short(rule.source)
    why = f": {rule.reason}" if rule.reason and rule.source != BUILT_IN else ""
    matchers = str(rule).partition(" ")[2]
    print_wrapped(
        f"  {layer:<10}  {styled_answer(rule.answer)}  ", f"{exact(matchers)} ({plain(stands + why)})", indent=23
    )


def print_entry(entry: RememberedRule) -> None:
    since = datetime.fromtimestamp(entry.at).astimezone().date().isoformat()
    matchers = str(entry.rule).partition(" ")[2]
    text = f"{exact(matchers)} (since {since}, in {exact(entry.workspace)})"
    print_wrapped(f"  {entry.id}  {styled_answer(entry.rule.answer)}  ", text, indent=18)


def _layer(layer: Layer) -> str:
    return f"layer {layer}"


def print_notice(notice: str | None) -> None:
    if notice is not None:
        sys.stderr.write(exits.laid_out(["", f"dragoman: {notice}"], terminal_width()))


def styled_answer(answer: str) -> str:
    return _styled(f"{answer:<5}", _COLOURS[answer])


def _styled(text: str, colour: str) -> str:
    return click.style(text, fg=colour) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def print_wrapped(start: str, text: str, *, indent: int) -> None:
    columns = min(_WIDEST, max(LEAST_WIDTH, shutil.get_terminal_size((_WIDEST, 24)).columns))
    for line in _broken(start, text, " " * indent, columns - 1):
        click.echo(line)


def _broken(start: str, text: str, indent: str, room: int) -> Iterable[str]:
    """`start` may be coloured, which takes no room: it is as wide as the indent, or narrower than it by what is cut."""
    width = len(click.unstyle(start))
    blank = " " * width
    lines = textwrap.wrap(
        text, room, initial_indent=blank, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    if not lines:
        return [start.rstrip()]
    return [start + lines[0][width:], *lines[1:]]
