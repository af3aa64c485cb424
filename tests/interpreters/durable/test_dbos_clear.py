"""What DBOS keeps of runs is deleted once nobody needs it: of sessions that live on, too."""

from __future__ import annotations

from typing import Any

import pytest

from interpreters import Agent
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.databases import needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from interpreters.durable.dbos.sessions import DBOSSessions

DAY = 86_400.0


@needs_postgres
def test_runs_that_ended_long_ago_go_but_for_the_newest_and_what_is_under_way() -> None:
    agent = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."), version="grown")
    with DBOSSessions(agent, postgres().url) as sessions:
        client = sessions._connect()
        runs = {key: sessions.send("grown", "Hi!", key=key) for key in ("first", "fresh", "under-way", "newest")}
        workers = {sessions.send("grown", "Hi!", key=f"w{number}"): key for number, key in enumerate(runs)}
        with Agent(agent.model, journal=sessions.recorder("grown")) as one:
            one.run("Hi!")
        rows = client._sys_db.tables.workflow_status

        def changed(run: str, **values: Any) -> None:
            with client._sys_db.engine.begin() as connection:
                connection.execute(rows.update().where(rows.c.workflow_uuid == run).values(**values))

        ids = dict(runs)
        for run, key in workers.items():
            changed(run, workflow_uuid=f"{runs[key]}/1.2.1")
            ids[f"{key}'s worker"] = f"{runs[key]}/1.2.1"
        at = {key: client.list_workflows(workflow_ids=[run])[0].created_at for key, run in ids.items()}
        for key, run in ids.items():
            if key != "under-way":
                ago = DAY if key.startswith("fresh") else 40 * DAY
                changed(run, status="SUCCESS", completed_at=int(at[key] - 1000 * ago))

        def left() -> set[str]:
            kept = {one.workflow_id for one in client.list_workflows(workflow_id_prefix="grown:", load_input=False)}
            return {key for key, run in ids.items() if run in kept}

        sessions.clear()
        assert left() == set(ids)
        sessions.clear(older=30 * DAY)
        assert left() == set(ids) - {"first", "first's worker"}
        assert sessions._version_of("grown") == sessions.version
        with pytest.raises(DurableError, match="there is no run"):
            sessions.result(ids["first"])
        sessions.cancel("grown")
