"""What the doctor prints, at 80 columns."""

from orbitmq.cli.doctor.findings import finding_lines, note, problem, risk

SAID = """\
PROBLEM  nameserver 10.0.0.2:9876 does not answer: no connection to
         10.0.0.2:9876
         Check that it runs.

RISK     autoCreateTopicEnable is on.
         In production switch it off:
         $ orbitmq broker config set autoCreateTopicEnable=false --on the-one-and-only-broker

NOTE     a misspelled topic is created.
         Switch it off in production.

fine     ports, TLS

1 problem and 1 risk; 2 checks passed
"""


def test_problems_come_first_and_commands_are_not_wrapped() -> None:
    command = "orbitmq broker config set autoCreateTopicEnable=false --on the-one-and-only-broker"
    findings = [
        note("c", "a misspelled topic is created.", "Switch it off in production."),
        risk("a", "autoCreateTopicEnable is on.", "In production switch it off:", command),
        problem(
            "b",
            "nameserver 10.0.0.2:9876 does not answer: no connection to 10.0.0.2:9876",
            "Check that it runs.",
        ),
    ]
    shown = "".join(f"{line}\n" for line in finding_lines(findings, ["ports", "TLS"]))
    assert shown == SAID


def test_nothing_is_wrong() -> None:
    assert list(finding_lines([], ["ports"])) == [
        "fine     ports",
        "",
        "nothing is wrong; 1 check passed",
    ]
    assert list(finding_lines([], [])) == ["nothing is wrong; 0 checks passed"]
