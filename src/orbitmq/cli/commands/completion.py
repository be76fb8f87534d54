"""``orbitmq completion``: a script by which a shell completes commands, options and choices.

The script has all words in it: completing runs no Python. It is made from the arguments of all
commands, so it is as new as the installed version.
"""

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from orbitmq.cli.asking import described

__all__ = ["Place", "add_arguments", "places", "script"]


class Place(NamedTuple):
    """A command, and the words that may come next: others of its family, options, choices."""

    command: str
    words: Mapping[str, str]
    """The words, and what they mean."""
    is_family: bool
    """Whether a command of a family follows, which is no file."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq completion``."""
    described(
        command,
        "Print a script by which a shell completes commands, options and choices.",
        examples=[
            "completion bash > ~/.local/share/bash-completion/completions/orbitmq",
            'completion zsh > "${fpath[1]}/_orbitmq"',
            "completion fish > ~/.config/fish/completions/orbitmq.fish",
        ],
        status="0 printed",
    )
    command.add_argument("shell", metavar="SHELL", choices=_SCRIPTS, help="bash, zsh or fish")
    # `main` has the parser of all commands; it calls this with it.
    command.set_defaults(run_with_parser=_run)


def _run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    print(script(arguments.shell, parser), end="")
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for a shell: bash, zsh or fish."""
    return _SCRIPTS[shell](list(places(parser)))


def places(parser: argparse.ArgumentParser) -> Iterator[Place]:
    """Yield every command and family, with the words that may follow it."""
    words: dict[str, str] = {}
    is_family = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            is_family = True
            for choice in action._choices_actions:
                words[choice.dest] = _help(choice, parser)
            for child in action.choices.values():
                yield from places(child)
        elif action.option_strings and action.help is not argparse.SUPPRESS:
            words |= dict.fromkeys(action.option_strings, _help(action, parser))
        elif action.choices is not None:
            words |= dict.fromkeys(map(str, action.choices), "")
    yield Place(parser.prog, words, is_family)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return " ".join(text.split())


# Scripts


def _bash(found: list[Place]) -> str:
    known = "|".join(shlex.quote(one.command) for one in found)
    cases = "\n".join(
        f"        {shlex.quote(one.command)}) words={shlex.quote(' '.join(one.words))} ;;"
        for one in found
    )
    return f"""\
# bash completion of orbitmq
_orbitmq() {{
    local command=orbitmq word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$command $word" in
            {known}) command="$command $word" ;;
        esac
    done
    case "$command" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _orbitmq orbitmq
"""


def _zsh(found: list[Place]) -> str:
    known = "|".join(shlex.quote(one.command) for one in found)
    cases = "\n".join(
        f"        {shlex.quote(one.command)}) words_here=({_zsh_words(one)}) ;;" for one in found
    )
    return f"""\
#compdef orbitmq
# zsh completion of orbitmq
_orbitmq() {{
    local command=orbitmq word
    local -a words_here
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$command $word" in
            {known}) command="$command $word" ;;
        esac
    done
    case "$command" in
{cases}
    esac
    _describe 'orbitmq' words_here || _files
}}
if [ "$funcstack[1]" = _orbitmq ]; then _orbitmq "$@"; else compdef _orbitmq orbitmq; fi
"""


def _zsh_words(place: Place) -> str:
    pairs = (f"{word}:{means}" if means else word for word, means in place.words.items())
    return " ".join(shlex.quote(pair) for pair in pairs)


def _fish(found: list[Place]) -> str:
    known = " ".join(_fish_quoted(one.command) for one in found)
    lines = [
        "# fish completion of orbitmq",
        "function __orbitmq_at",
        "    set -l command orbitmq",
        "    for word in (commandline -opc)[2..-1]",
        f'        if contains -- "$command $word" {known}',
        '            set command "$command $word"',
        "        end",
        "    end",
        '    test "$command" = "$argv[1]"',
        "end",
    ]
    for one in found:
        at = _fish_quoted(f"__orbitmq_at {_fish_quoted(one.command)}")
        if one.is_family:
            lines.append(f"complete -c orbitmq -n {at} -f")
        for word, means in one.words.items():
            how = f"-a {_fish_quoted(word)}"
            if word.startswith("--"):
                how = f"-l {word[2:]}"
            elif word.startswith("-"):
                how = f"-s {word[1:]}"
            lines.append(f"complete -c orbitmq -n {at} {how} -d {_fish_quoted(means)}")
    return "\n".join((*lines, ""))


def _fish_quoted(text: str) -> str:
    r"""Return a word for fish, which has no other escapes between single quotes.

    >>> print(_fish_quoted("the user's"))
    'the user\'s'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SCRIPTS: Final[Mapping[str, Callable[[list[Place]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
