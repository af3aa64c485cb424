"""Options and words of a command line mean the same in any order, for every command."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interpreters.cli.main import parser
from interpreters.cli.options.arguments import Parser

SAMPLES = ("x", "1", "0.5", "1.1", "name=x", "module:name", "1024", "all", "90m", "questions", "waiting,failed")


def leaves(command: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, Parser]]:
    """Each command without subcommands, with the words that lead to it."""
    groups = [action for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    for group in groups:
        for word, inner in group.choices.items():
            yield from leaves(inner, f"{name} {word}".strip())
    if not groups:
        assert isinstance(command, Parser)
        yield name, command


COMMANDS = dict(leaves(parser(), ""))


def sample(action: argparse.Action) -> str:
    """A value that an option or a word takes."""
    if action.choices is not None:
        return str(next(iter(action.choices)))
    for value in SAMPLES:
        try:
            if callable(action.type):
                action.type(value)
        except (argparse.ArgumentTypeError, ValueError):
            continue
        return value
    raise AssertionError(f"no sample for {action.dest}")


@cache
def groups_of(name: str) -> tuple[tuple[tuple[tuple[str, ...], ...], bool], ...]:
    """The options of a command, written with values: groups of which one may be given, and whether one has to be."""
    command = COMMANDS[name]
    excluding = [(group._group_actions, group.required) for group in command._mutually_exclusive_groups]
    grouped = {id(action) for actions, _ in excluding for action in actions}
    alone = [([action], action.required) for action in command._actions if id(action) not in grouped]
    found = []
    for actions, required in (*excluding, *alone):
        usable = [action for action in actions if action.option_strings and action.dest != "help"]
        written = tuple((action.option_strings[-1], *[sample(action)] * values_of(action)) for action in usable)
        found += [(written, required)] if written else []
    return tuple(found)


def values_of(action: argparse.Action) -> int:
    return action.nargs if isinstance(action.nargs, int) else 1


def read(command: Parser, parts: Iterable[Sequence[str]]) -> dict[str, Any]:
    """What the command reads from parts of a line, as argparse alone does."""
    line = [argument for part in parts for argument in part]
    return vars(argparse.ArgumentParser.parse_known_args(command, line)[0])


@pytest.mark.parametrize("name", COMMANDS)
@settings(max_examples=15)
@given(data=st.data())
def test_options_and_words_mean_the_same_in_any_order(name: str, data: st.DataObject) -> None:
    """The same as with all options in front of all words, where argparse has no choice."""
    command, groups = COMMANDS[name], groups_of(name)
    drawn = data.draw(st.lists(st.sampled_from(groups), max_size=4, unique=True)) if groups else []
    chosen = {*drawn, *[group for group in groups if group[1]]}
    options = [data.draw(st.sampled_from(written)) for written, _ in chosen]
    words = [(sample(action),) for action in command._actions if not action.option_strings]
    order = data.draw(st.permutations([*options, *[None] * len(words)]))
    rest = iter(words)
    mixed = [next(rest) if part is None else part for part in order]

    assert vars(command.parse_args([argument for part in mixed for argument in part])) == read(
        command, [*options, ("--",), *words]
    )


@pytest.mark.parametrize(
    "line",
    [
        ["resume", "FILE", "--model", "M", "And now?"],
        ["resume", "FILE", "And now?", "--model", "M"],
        ["resume", "--model", "M", "FILE", "And now?"],
        ["resume", "--model=M", "FILE", "--", "And now?"],
    ],
)
def test_a_prompt_may_stand_behind_an_option(line: list[str]) -> None:
    options = parser().parse_args(line)

    assert (options.file, options.model, options.prompt) == ("FILE", "M", "And now?")


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        (["context", "--prompt", "--model", "FILE"], "model", ""),
        (["context", "--prompt", "--model", "SPEC", "FILE"], "model", "SPEC"),
        (["context", "FILE", "--prompt", "--model", "SPEC"], "model", "SPEC"),
        (["resume", "FILE", "--json", "-"], "prompt", "-"),
        (["resume", "FILE", "--json", "-5"], "prompt", "-5"),
        (["resume", "FILE", "--json", "- one\n- two"], "prompt", "- one\n- two"),
        (["resume", "FILE", "--json", "--", "--why"], "prompt", "--why"),
        (["resume", "FILE", "--json", ""], "prompt", ""),
        (["sessions", "list", "a", "--json", "b"], "places", ["a", "b"]),
    ],
)
def test_words_of_every_form_are_found(line: list[str], field: str, expected: object) -> None:
    """What begins with a dash and is a word stays one; an option leaves a word to a command that lacks it."""
    assert getattr(parser().parse_args(line), field) == expected


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (["resume", "FILE", "--model"], "argument --model: expected one argument"),
        (["resume", "--model", "--json", "FILE", "Hi"], "argument --model: expected one argument"),
        (["resume", "FILE", "--modle", "M"], "unrecognized arguments: --modle M"),
        (["resume", "--json"], "the following arguments are required: FILE"),
        (["resume", "FILE", "Hi", "--json", "you"], "unrecognized arguments: you"),
        (["context", "FILE", "--diff", "1"], "argument --diff: expected 2 arguments"),
    ],
)
def test_errors_are_those_of_the_line_as_it_was_written(
    line: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(line)

    assert error in capsys.readouterr().err
