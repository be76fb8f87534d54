import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from orbitmq.cli.commands.completion import places, script
from orbitmq.cli.main import main, parser

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    return {shell: script(shell, parser()) for shell in SHELLS}


def test_a_place_has_commands_options_and_choices() -> None:
    found = {one.command: one.words for one in places(parser())}
    assert {"topic", "send", "--version", "--help"} <= set(found["orbitmq"])
    assert found["orbitmq topic"]["create"] == "create or change a topic"
    assert found["orbitmq topic create"]["--queues"] == "queues on each broker (4)"
    assert {"queues", "topics", "log", "--on"} <= set(found["orbitmq broker clean"])


TYPED = (
    ("orbitmq top", ["topic"]),
    ("orbitmq topic cr", ["create"]),
    ("orbitmq topic create orders --que", ["--queues"]),
    ("orbitmq --debug topic li", ["list"]),
    ("orbitmq broker clean t", ["topics"]),
    ("orbitmq pipeline dead", ["dead-letters"]),
    ("orbitmq completion ", ["bash", "zsh", "fish"]),
)


@pytest.mark.parametrize(("typed", "completed"), TYPED)
def test_fish_completes(
    typed: str, completed: list[str], scripts: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_text(f'{scripts["fish"]}\ncomplete -C "{typed}"\n')
    command = ["fish", "--no-config", "script"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = [line.partition("\t")[0] for line in ran.stdout.splitlines()]
    assert set(completed) <= set(found)


def test_no_files_where_a_command_follows(scripts: dict[str, str]) -> None:
    places_without_files = "complete -c orbitmq -n '__orbitmq_at \\'{}\\'' -f"
    lines = scripts["fish"].splitlines()
    assert places_without_files.format("orbitmq topic") in lines
    assert places_without_files.format("orbitmq store verify") not in lines


@pytest.mark.parametrize(("typed", "completed"), TYPED)
def test_bash_completes(typed: str, completed: list[str], scripts: dict[str, str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    words = typed.split(" ")
    asked = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _orbitmq"
    shown = f'{scripts["bash"]}\n{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    found = ran.stdout.split()
    assert set(completed) <= set(found)
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_that_the_shell_reads(
    shell: str, scripts: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(scripts[shell])
    ran = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command(shell: str, scripts: dict[str, str]) -> None:
    for one in places(parser()):
        assert f"'{one.command}'" in scripts[shell] or f"{one.command})" in scripts[shell]


def test_fish_escapes_what_ends_a_word(scripts: dict[str, str]) -> None:
    lines = scripts["fish"].splitlines()
    assert any("-d 'the directory of the commit log, if storePath" in line for line in lines)
    assert any("broker\\'s" in line for line in lines)


def test_the_command_prints_it(scripts: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == scripts["zsh"]
    assert main(["completion", "tcsh"]) == 2
    assert "must be one of bash, zsh, fish" in capsys.readouterr().err
