"""Histories of Temporal without its server: what a workflow asks for is done here, and written as a server does it.

The real ``Replayer`` brings the workflow to where the history ends, each time from its beginning, and a runner of ours
looks at what it asks for then.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio.api.common.v1 import ActivityType, Payload, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import EventType, StartChildWorkflowExecutionFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner

NAME = "cogstep.session"
DEFINITION = "__temporal_activity_definition"
ALREADY = "START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS"
CHECKED = 1
"""The flag of the core by which a replay compares ids and types of activities."""


class Listening(WorkflowRunner):
    """Runs workflows as Temporal does, and keeps what the newest task asked for: a cancelled activity makes two
    activations of it.
    """

    def __init__(self) -> None:
        self._runner = UnsandboxedWorkflowRunner()
        self.commands: list[Any] = []
        self.length = 0
        self.failure = ""
        self.instance: Any = None

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: Any) -> Any:
        instance, listening = self._runner.create_instance(det), self
        self.instance = instance

        class Heard:
            def activate(self, act: Any) -> Any:
                done = instance.activate(act)
                if any(job.HasField("remove_from_cache") for job in act.jobs):
                    return done
                before = listening.commands if act.history_length == listening.length else []
                listening.length = act.history_length
                listening.commands = [*before, *done.successful.commands]
                listening.failure = done.failed.failure.message
                return done

            def __getattr__(self, name: str) -> Any:
                return getattr(instance, name)

        return Heard()


class History:
    """A workflow from its start on, as far as it has come.

    Args:
        workflow: its class.
        given: what it is started with.
        activities: carry out what it asks for.
        name: its id.
    """

    def __init__(
        self,
        workflow: type,
        given: str,
        activities: list[Callable[..., Awaitable[str]]],
        name: str = "ada",
    ) -> None:
        self._workflow = workflow
        self._activities = {getattr(one, DEFINITION).name: one for one in activities}
        self._list = activities
        self.name = name
        self.events: list[HistoryEvent] = []
        self._waiting: deque[Any] = deque()
        self._scheduled: dict[int, int] = {}
        """The events by which activities were asked for, by their numbers."""
        self.result: str | None = None
        self.performed: list[str] = []
        """The ids of the activities, in order."""
        self.asked: list[str] = []
        """The ids of the activities that were asked for, whether they came to be performed or not."""
        self.lost: set[str] = set()
        """The activities whose first attempt is lost with its process."""
        self.held: set[str] = set()
        """The beginnings of ids of activities and workers' names that never end."""
        self.elsewhere: dict[str, list[Callable[..., Awaitable[str]]]] = {}
        """By the ids of effects, the activities of another process that carries them out."""
        self.taken: set[str] = set()
        """The names of workflows that others have."""
        self.failures: list[str] = []
        """How attempts of activities failed, which are made again."""
        self.is_long = False
        """Whether the server suggests to go on as new."""
        self.asked_to_cancel = 0
        self.went_on: str | None = None
        """What it went on as new with."""
        started = self._add(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
        one = started.workflow_execution_started_event_attributes
        one.workflow_type.name = NAME
        one.task_queue.name = "cogstep"
        one.input.CopyFrom(_payloads(given))
        one.original_execution_run_id = one.first_execution_run_id = f"run-{name}"
        one.workflow_id = name
        one.attempt = 1

    def _add(self, kind: Any) -> HistoryEvent:
        event = HistoryEvent(event_id=len(self.events) + 1, event_type=kind)
        event.event_time.FromSeconds(1_790_000_000 + len(self.events))
        self.events.append(event)
        return event

    async def signal(self, name: str, *arguments: str) -> None:
        """Send a signal, and go on for as long as there is something to do."""
        self.send(name, *arguments)
        await self.go_on()

    def send(self, name: str, *arguments: str) -> None:
        """Send a signal, which the workflow has with what comes next."""
        event = self._add(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
        one = event.workflow_execution_signaled_event_attributes
        one.signal_name = name
        one.input.CopyFrom(_payloads(*arguments))

    async def go_on(self) -> None:
        while True:
            scheduled = self._add(EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
            scheduled.workflow_task_scheduled_event_attributes.task_queue.name = "cogstep"
            begun = self._add(EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED)
            begun.workflow_task_started_event_attributes.scheduled_event_id = scheduled.event_id
            begun.workflow_task_started_event_attributes.suggest_continue_as_new = self.is_long
            commands = await self._asked()
            done = self._add(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
            one = done.workflow_task_completed_event_attributes
            one.scheduled_event_id, one.started_event_id = scheduled.event_id, begun.event_id
            one.sdk_metadata.core_used_flags.append(CHECKED)
            for command in commands:
                self._write(command, done.event_id)
            if self.result is not None or self.went_on is not None or not self._waiting:
                return
            await self._waiting.popleft()()

    async def _asked(self) -> list[Any]:
        runner = Listening()
        replayer = Replayer(workflows=[self._workflow], unsandboxed_workflow_runner=runner)
        await replayer.replay_workflow(WorkflowHistory(self.name, self.events), raise_on_replay_failure=False)
        assert runner.failure == ""
        return runner.commands

    def _write(self, command: Any, task: int) -> None:
        match command.WhichOneof("variant"):
            case "schedule_activity":
                self._schedule(command.schedule_activity, task)
            case "start_timer":
                self._start_timer(command.start_timer, task)
            case "start_child_workflow_execution":
                self._start_child(command.start_child_workflow_execution, task)
            case "complete_workflow_execution":
                event = self._add(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
                one = event.workflow_execution_completed_event_attributes
                one.result.payloads.append(command.complete_workflow_execution.result)
                one.workflow_task_completed_event_id = task
                self.result = json.loads(command.complete_workflow_execution.result.data)
            case "continue_as_new_workflow_execution":
                event = self._add(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW)
                new = event.workflow_execution_continued_as_new_event_attributes
                arguments = command.continue_as_new_workflow_execution.arguments
                new.input.payloads.extend(arguments)
                new.workflow_type.name = NAME
                new.workflow_task_completed_event_id = task
                self.went_on = json.loads(arguments[0].data)
            case "request_cancel_activity":
                self.asked_to_cancel += 1
                event = self._add(EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED)
                cancel = event.activity_task_cancel_requested_event_attributes
                cancel.scheduled_event_id = self._scheduled[command.request_cancel_activity.seq]
                cancel.workflow_task_completed_event_id = task
            case "respond_to_query" | None:
                pass
            case other:
                raise AssertionError(f"the workflow asks for {other}: {command}")

    def _schedule(self, asked: Any, task: int) -> None:
        event = self._add(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
        one = event.activity_task_scheduled_event_attributes
        one.activity_id = asked.activity_id
        one.activity_type.CopyFrom(ActivityType(name=asked.activity_type))
        one.task_queue.CopyFrom(TaskQueue(name="cogstep"))
        one.input.payloads.extend(asked.arguments)
        one.workflow_task_completed_event_id = task
        scheduled = self._scheduled[asked.seq] = event.event_id
        self.asked.append(asked.activity_id)
        if asked.activity_id.startswith(tuple(self.held)):
            return
        arguments = [json.loads(payload.data) for payload in asked.arguments]

        async def perform() -> None:
            self.performed.append(asked.activity_id)
            result = await self._performed(asked.activity_type, asked.activity_id, arguments)
            begun = self._add(EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED)
            begun.activity_task_started_event_attributes.scheduled_event_id = scheduled
            done = self._add(EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
            attributes = done.activity_task_completed_event_attributes
            attributes.scheduled_event_id, attributes.started_event_id = scheduled, begun.event_id
            attributes.result.CopyFrom(_payloads(result))

        self._waiting.append(perform)

    async def _performed(self, kind: str, name: str, arguments: list[str]) -> str:
        while True:
            environment = ActivityEnvironment()
            if name.partition("-")[0] in self.lost:
                environment.info = _again(environment.info)
            there = {getattr(one, DEFINITION).name: one for one in self.elsewhere.get(name.partition("-")[0], ())}
            try:
                given: str = await environment.run({**self._activities, **there}[kind], *arguments)
            except ApplicationError as error:
                self.failures.append(str(error))
                continue
            return given

    def _start_timer(self, asked: Any, task: int) -> None:
        event = self._add(EventType.EVENT_TYPE_TIMER_STARTED)
        one = event.timer_started_event_attributes
        one.timer_id = str(asked.seq)
        one.start_to_fire_timeout.CopyFrom(asked.start_to_fire_timeout)
        one.workflow_task_completed_event_id = task
        started = event.event_id

        async def fire() -> None:
            fired = self._add(EventType.EVENT_TYPE_TIMER_FIRED).timer_fired_event_attributes
            fired.timer_id, fired.started_event_id = str(asked.seq), started

        self._waiting.append(fire)

    def _start_child(self, asked: Any, task: int) -> None:
        event = self._add(EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED)
        one = event.start_child_workflow_execution_initiated_event_attributes
        one.workflow_id = asked.workflow_id
        one.workflow_type.CopyFrom(WorkflowType(name=asked.workflow_type))
        one.input.payloads.extend(asked.input)
        one.workflow_task_completed_event_id = task
        initiated = event.event_id
        if asked.workflow_id in self.taken:
            failed = self._add(EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED)
            why = failed.start_child_workflow_execution_failed_event_attributes
            why.workflow_id, why.initiated_event_id = asked.workflow_id, initiated
            why.workflow_type.CopyFrom(one.workflow_type)
            why.cause = StartChildWorkflowExecutionFailedCause.Value(ALREADY)
            self._waiting.append(_nothing)
            return

        async def run() -> None:
            child = History(self._workflow, json.loads(asked.input[0].data), self._list, asked.workflow_id)
            child.is_long = self.is_long
            await child.go_on()
            child = await child.newest()
            assert child.result is not None
            execution = WorkflowExecution(workflow_id=asked.workflow_id, run_id=f"run-{asked.workflow_id}")
            begun = self._add(EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
            started = begun.child_workflow_execution_started_event_attributes
            started.initiated_event_id = initiated
            started.workflow_execution.CopyFrom(execution)
            started.workflow_type.CopyFrom(one.workflow_type)
            done = self._add(EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED)
            ended = done.child_workflow_execution_completed_event_attributes
            ended.initiated_event_id, ended.started_event_id = initiated, begun.event_id
            ended.workflow_execution.CopyFrom(execution)
            ended.workflow_type.CopyFrom(one.workflow_type)
            ended.result.CopyFrom(_payloads(child.result))

        self._waiting.append(run)

    async def newest(self) -> History:
        """The history that goes on, which is this one where it did not go on as new."""
        if self.went_on is None:
            return self
        next_one = History(self._workflow, self.went_on, self._list, self.name)
        next_one.is_long = self.is_long
        next_one.asked = self.asked
        await next_one.go_on()
        return await next_one.newest()

    async def query(self, name: str) -> str:
        """What a query gives at the end of the history: asked of the workflow's object, as no event stands for it."""
        runner = Listening()
        replayer = Replayer(workflows=[self._workflow], unsandboxed_workflow_runner=runner)
        await replayer.replay_workflow(WorkflowHistory(self.name, self.events), raise_on_replay_failure=False)
        given: str = getattr(runner.instance._object, name)()
        return given

    async def replay(self, workflow: type | None = None) -> None:
        """Have Temporal's Replayer compare the history with what a workflow asks for; raises what it raises."""
        replayer = Replayer(workflows=[workflow or self._workflow])
        await replayer.replay_workflow(WorkflowHistory(self.name, self.events))


async def _nothing() -> None:
    """For an event that stands there already."""


def _again(info: Any) -> Any:
    return replace(info, attempt=2)


def _payloads(*texts: str) -> Payloads:
    return Payloads(
        payloads=[Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(text).encode()) for text in texts]
    )
