"""HTTP calls of a Restate server: its ingress, which accepts messages for sessions, and its admin API."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from attrs import frozen

from cognition import ConfigError
from cognition.base.checking import show
from interpreters.durable._errors import DurableError

SECONDS = 30.0
"""Timeout in seconds of a call that does not wait for a run."""

NOT_REACHED = b"META0003"
"""The server's error code for an unreachable address."""


HEAR: Final = "run"
"""The handler of messages: one at a time of a session, each until its turn may begin and has run."""

ANSWER: Final = "answer"
"""The handler of all other inputs, which a message that waits for the end of the turn does not hold up."""

WAITER: Final = "cogstep-waiter"
"""The header with the awakeable of a message that waits, and the key of a session's state that keeps it."""

VERSION: Final = "version"
"""The key of a session's state with the version that began it."""

PENDING: Final = "cogstep-pending"
"""The key of a session's state with the answers that its turn waits for: ``{"at": seconds, "waits_for": [...]}``."""

OUTCOME: Final = "outcome"
"""The metadata of a failed run's error with its ``RunOutcome``, as JSON."""

VERSIONED: Final = "cogstep-version."


def entrance_name(agent: str) -> str:
    """Return the name of the virtual object that chooses the version for a session."""
    return f"cogstep.{agent}"


def versioned_name(agent: str, version: str) -> str:
    """Return the name of the object that runs the sessions of one version. The length separates the names, as both may
    contain dots.
    """
    return f"{VERSIONED}{len(agent)}.{agent}.{version}"


@frozen
class HttpReply:
    status: int
    body: bytes

    @property
    def message(self) -> str | None:
        """The message of an error of Restate; None if the answer does not look like one."""
        try:
            return str(json.loads(self.body)["message"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def outcome(self) -> str | None:
        """The outcome in an error of a run of ours; None if it has none."""
        try:
            return str(json.loads(self.body)["metadata"][OUTCOME])
        except (ValueError, KeyError, TypeError):
            return None

    def json(self, url: str) -> Any:
        """Return the body as data.

        Raises:
            DurableError: it is not JSON, so that the answer is not from Restate.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise DurableError(f"what answers at {url} is no Restate server") from error

    def problem(self) -> str:
        return f"status {self.status}, as of no Restate server" if self.message is None else self.message


@frozen
class RestateServer:
    ingress: str
    admin: str

    @classmethod
    def at(cls, ingress: str, admin: str) -> RestateServer:
        """Return the server with these addresses.

        Raises:
            ConfigError: an address is invalid.
        """
        for what, url in (("admin", admin), ("ingress", ingress)):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise ConfigError(f"{what} has to be an address such as http://127.0.0.1:8080, not {show(url)}")
        return cls(ingress.rstrip("/"), admin.rstrip("/"))

    def send(self, service: str, key: str, body: str, idempotency: str = "", handler: str = HEAR) -> str:
        """Invoke a handler of a session; return the invocation's id once the server has it on its disk.

        Raises:
            DurableError: there is no server, or it does not have the service.
        """
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        path = f"/{service}/{quote(key, safe='')}/{handler}/send"
        try:
            reply = _call("POST", self.ingress, path, body.encode(), headers)
        except DurableError as error:
            if not isinstance(error.__cause__, URLError) or not isinstance(
                error.__cause__.reason, BrokenPipeError | ConnectionResetError
            ):
                raise
            raise DurableError(
                f"the Restate server at {self.ingress} stopped reading a message of {len(body):,} bytes: it is more "
                "than `message-size-limit` in the server's configuration, or the server was ended"
            ) from error
        if reply.status == 404 and reply.message is not None:
            if handler != HEAR:  # its processes have an earlier cogstep, which takes every input there
                return self.send(service, key, body, idempotency)
            raise DurableError(
                f"the Restate server at {self.ingress} knows no {service.partition('.')[2]!r}: start a process that "
                "serves this agent"
            )
        if reply.status >= 300:
            _check_role("ingress", self.ingress)
            raise DurableError(f"the Restate server at {self.ingress} refused the message: {reply.problem()}")
        return str(reply.json(self.ingress)["invocationId"])

    def output(self, invocation: str, seconds: float | None) -> HttpReply | None:
        """Return the outcome of an invocation; None if it has not ended in time.

        Raises:
            DurableError: there is no server, or it does not know the invocation.
        """
        path = f"/restate/invocation/{quote(invocation, safe='')}/"
        try:
            wait = "output" if seconds == 0 else "attach"
            reply = _call("GET", self.ingress, path + wait, None, {}, SECONDS if seconds == 0 else seconds)
        except TimeoutError:
            return None
        if reply.status == 470:  # not ready
            return None
        if reply.status == 404:
            _check_role("ingress", self.ingress)
            raise DurableError(f"the Restate server at {self.ingress} knows no run {invocation!r}")
        return reply

    def cancel(self, invocation: str) -> bool:
        """Cancel an invocation; False if it has ended.

        Raises:
            DurableError: there is no server.
        """
        reply = _call("PATCH", self.admin, f"/invocations/{quote(invocation, safe='')}/cancel", b"", {})
        return reply.status < 300

    def act(self, invocation: str, verb: str) -> dict[str, Any] | None:
        """Resume, restart or purge an invocation; return the server's answer, None if it refuses.

        Args:
            invocation: its id.
            verb: ``resume``, ``restart-as-new`` or ``purge``.

        Raises:
            DurableError: there is no server.
        """
        reply = _call("PATCH", self.admin, f"/invocations/{quote(invocation, safe='')}/{verb}", b"", {})
        if reply.status >= 300:
            return None
        found: dict[str, Any] = reply.json(self.admin) if reply.body else {}
        return found

    def ingress_address(self) -> str:
        """Return the address for messages that the server advertises.

        Raises:
            DurableError: there is no server, or it does not tell.
        """
        reply = _call("GET", self.admin, "/version", None, {})
        found = reply.json(self.admin).get("ingress_endpoint") if reply.status < 300 else None
        if not found:
            _check_role("admin", self.admin)
            raise DurableError(
                f"the Restate server at {self.admin} does not tell its address for messages: give ingress="
            )
        return str(found)

    def register(self, url: str, services: Collection[str]) -> None:
        """Register the services that a process serves at an address.

        Raises:
            DurableError: there is no server, it does not reach this address, or knows it as that of other services.
        """
        body = json.dumps({"uri": url}).encode()
        try:
            reply = _call("POST", self.admin, "/deployments", body, {})
        except TimeoutError as error:
            raise DurableError(
                f"the Restate server at {self.admin} does not reach {url}, or does not answer: say the address of this "
                "process as the server sees it"
            ) from error
        if reply.status >= 300:
            _check_role("admin", self.admin)
            raise DurableError(f"the Restate server at {self.admin} did not take {url}: {reply.problem()}")
        found = reply.json(self.admin)["services"]
        known = {str(one["name"]) for one in found}
        handlers = {str(one["name"]): {str(handler["name"]) for handler in one.get("handlers", ())} for one in found}
        if known.issuperset(services) and any(
            ANSWER not in handlers[name] for name in services if not name.startswith(VERSIONED)
        ):
            # An earlier cogstep served here: the server keeps what it knows of an address, unless it is told.
            body = json.dumps({"uri": url, "force": True}).encode()
            _call("POST", self.admin, "/deployments", body, {})
        if not known.issuperset(services):
            missing = ", ".join(sorted(set(services) - known))
            raise DurableError(
                f"the Restate server at {self.admin} knows {url} as the address of others, without {missing}: another "
                "version, or other agents, need another address"
            )

    def move_here(self, url: str, services: Collection[str]) -> None:
        """Move runs to an address if they are bound to another address of the same services that no longer answers.

        The server binds a run to the address at which it started, and sends new runs to the address registered last.

        Args:
            url: the address of these services.
            services: all services at that address.

        Raises:
            DurableError, TimeoutError: the server does not answer; the remaining runs are not moved.
        """
        for one in _call("GET", self.admin, "/deployments", None, {}).json(self.admin)["deployments"]:
            there = str(one.get("uri", "")).rstrip("/")
            names = {str(service["name"]) for service in one["services"]}
            if there in ("", url.rstrip("/")) or not names.issubset(services):
                continue
            looked = json.dumps({"uri": there, "dry_run": True, "force": True}).encode()
            reply = _call("POST", self.admin, "/deployments", looked, {})
            if reply.status >= 300 and NOT_REACHED in reply.body:
                path = f"/deployments/{quote(str(one['id']), safe='')}"
                _call("PATCH", self.admin, path, json.dumps({"uri": url}).encode(), {})

    def invocations(self, agent: str, key: str) -> list[dict[str, Any]]:
        """Return a session's unfinished invocations, each with ``id`` and ``idempotency_key``.

        ``at_work`` is whether the run has begun, and does not wait for another one, or for the end of a turn. A message
        that is executed while the turn waits for answers only finds that it has to wait.

        Raises:
            DurableError: there is no server.
        """
        quoted, entrance = key.replace("'", "''"), entrance_name(agent)
        rows = self.select(
            "SELECT id, idempotency_key, target_service_name, target_handler_name, status, invoked_by_id "
            "FROM sys_invocation "
            f"WHERE status <> 'completed' AND target_service_key = '{quoted}' AND (target_service_name = '{entrance}' "
            f"OR target_service_name LIKE '{versioned_name(agent, '')}%')"
        )
        begun = {one.get("invoked_by_id") for one in rows if one["status"] not in WAITING}
        waits = begun and self.select(
            f"SELECT key FROM state WHERE key = '{PENDING}' AND service_key = '{quoted}' "
            f"AND service_name LIKE '{versioned_name(agent, '')}%'"
        )
        return [
            {**one, "at_work": one["id"] in begun and not (waits and one["target_handler_name"] == HEAR)}
            for one in rows
            if one["target_service_name"] == entrance
        ]

    def select(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of a query of the server's tables, each without its empty columns.

        Raises:
            DurableError: there is no server, or it refuses the query.
        """
        reply = _call("POST", self.admin, "/query", json.dumps({"query": statement}).encode(), {})
        if reply.status >= 300:
            _check_role("admin", self.admin)
            raise DurableError(f"the Restate server at {self.admin} can't say what runs: {reply.problem()}")
        rows: list[dict[str, Any]] = reply.json(self.admin)["rows"]
        return rows

    def why_it_waits(self, invocation: str) -> str:
        """Return the failures that block an invocation or the calls of its session, or that the turn waits for answers;
        empty if unknown.

        Pass only an id that the server returned: it is part of an SQL statement.
        """
        quoted = invocation.replace("'", "''")
        session = f"(SELECT target_service_key FROM sys_invocation WHERE id = '{quoted}')"
        with suppress(DurableError, TimeoutError, LookupError):
            failed = self.select(
                "SELECT target, status, last_failure FROM sys_invocation WHERE status <> 'completed' "
                f"AND last_failure IS NOT NULL AND target_service_key = {session}"
            )
            if failed:
                return "; ".join(f"{one['target']} is {one['status']}: {one['last_failure']}" for one in failed[:SHOWN])
            if self.select(f"SELECT key FROM state WHERE key = '{WAITER}' AND service_key = {session}"):
                return "the turn before it waits for answers; hand them in with answer(), or cancel() it"
        return ""


WAITING = ("pending", "inboxed", "scheduled")

SHOWN = 2

TOLD_BY = {"admin": ("/version", "ingress_endpoint"), "ingress": ("/restate/health", "services")}
"""For each of a server's two addresses, a path and a field of its answer that only this address has."""


def _check_role(given: str, url: str) -> None:
    """Check that an address that rejects a call is not the server's other address.

    Raises:
        DurableError: it is the other address, or the server has gone.
    """
    other = "admin" if given == "ingress" else "ingress"
    path, name = TOLD_BY[other]
    try:
        found = name in json.loads(_call("GET", url, path, None, {}).body)
    except (ValueError, TypeError, TimeoutError):
        return
    if found:
        raise DurableError(
            f"{url} is the {other} address of a Restate server, and was given as {given}: are the two exchanged?"
        )


def _call(
    method: str, base: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float | None = SECONDS
) -> HttpReply:
    types = {"Content-Type": "application/json", "Accept": "application/json"}
    request = Request(base + path, body, types | headers, method=method)
    try:
        with urlopen(request, timeout=seconds) as answer:
            return HttpReply(answer.status, answer.read())
    except HTTPError as error:
        with error:
            return HttpReply(error.code, error.read())
    except TimeoutError:
        raise
    except (OSError, HTTPException) as error:
        why = error.reason if isinstance(error, URLError) else error
        if isinstance(why, TimeoutError):
            raise why from error
        raise DurableError(
            f"no Restate server answers at {base} ({why}): start one (npx @restatedev/restate-server) or say where it "
            "is"
        ) from error
