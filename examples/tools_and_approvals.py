"""Tools and approvals: reading runs freely, and a change asks a person first.

The policy denies one path, the tool asks for the others, and ``approve`` answers. Here it answers by a rule; put
``input(...)`` in its place to ask yourself. The model is a script, so you need no backend. Run it::

    python examples/tools_and_approvals.py
"""

import sys

from cogstep import Agent, Approval, ApprovalRequest, Policy, Rule, fakes, tool

FILES = {"notes.txt": "buy plums", "draft.tmp": "...", "key.pem": "secret"}


@tool(read_only=True)
def list_files() -> list[str]:
    """List the files."""
    return sorted(FILES)


@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    del FILES[path]
    return f"deleted {path}"


def approve(request: ApprovalRequest) -> Approval:
    path = request.call.arguments["path"]
    print(f"? {request.call.name} {path}")
    return Approval(path.endswith(".tmp"), "only temporary files may be deleted")


def main(journal: str | None = None) -> None:
    model = fakes.ScriptedModel(
        [
            fakes.call("list_files"),
            [fakes.call("delete", path=path) for path in ("draft.tmp", "notes.txt", "key.pem")],
            "I deleted draft.tmp.",
        ]
    )
    policy = Policy((Rule("deny", "delete(*.pem)", "keys are never deleted"),))
    with Agent(model, tools=[list_files, delete], policy=policy, approve=approve, journal=journal) as agent:
        result = agent.run("Clean up.")
    for call in result.calls:
        print(f"{call.name} {call.status}: {call.content}")
    print(result.text)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# ? delete draft.tmp
# ? delete notes.txt
# list_files ok: ["draft.tmp", "key.pem", "notes.txt"]
# delete ok: deleted draft.tmp
# delete refused: Error: the user refused this call: only temporary files may be deleted
# delete refused: Error: this call is not permitted: keys are never deleted
# I deleted draft.tmp.
