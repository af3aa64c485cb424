"""Names of cases."""


def case_name(text: object) -> str | None:
    """A text as the name of its case, without backslashes: pytest escapes them once more each time that one process
    collects the tests, and the run of the mutants looks for the names that they had at first.
    """
    return ascii(text)[1:-1].replace("\\", "|")[:50] if isinstance(text, str) else None
