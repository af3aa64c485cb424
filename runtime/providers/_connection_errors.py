"""Converts connection errors to failures that the core can classify."""

from __future__ import annotations

import socket
import ssl

import httpcore2

from cognition import Failure
from cognition.base.display import shown_name
from cognition.values.outcomes import ErrorKind
from runtime.providers._exchange import Exchange
from runtime.providers.backends import URL, Backend

LONGEST = 300
"""Maximum characters of a library's message within a failure."""

WAITED = {
    "connect": "it can't be connected to within {} s",
    "first": "it has not answered within {} s",
    "silence": "it has said nothing for {} s, in the middle of its reply",
    "heartbeats": "it has shown for {} s that it lives, and said nothing",
    "whole": "the request has taken more than {} s",
}
"""Timeout messages, by the kind of wait."""


def failure_of(error: BaseException, exchange: Exchange, backend: Backend) -> Failure:
    """Return the failure for a connection error. It contains no headers, so no key."""
    where = place_of(backend)
    cause = root_of(error)
    if isinstance(error, httpcore2.TimeoutException):
        wait = exchange.waits
        seconds = getattr(backend.timeouts, wait)
        kind: ErrorKind = "offline" if wait == "connect" else "transient"
        return Failure(f"{where}: {WAITED[wait].format(f'{seconds:g}')}", kind, code=f"timeout_{wait}")
    said = shown_name(str(error) or type(error).__name__, LONGEST)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Failure(
            f"{where}: its certificate is not trusted ({cause.verify_message}); trust its issuer by SSL_CERT_FILE",
            "fatal",
            code="certificate",
        )
    if isinstance(error, httpcore2.ConnectError | httpcore2.ProxyError):
        if isinstance(cause, ssl.SSLError):
            return Failure(f"{where}: it can't be spoken to with TLS ({said}); is it http://?", "offline", code="tls")
        name = isinstance(cause, socket.gaierror)
        what = "its name is not known" if name else "it can't be connected to"
        code = "name" if name else "proxy" if isinstance(error, httpcore2.ProxyError) else "connect"
        return Failure(f"{where}: {what} ({said})", "offline", code=code)
    if isinstance(error, httpcore2.LocalProtocolError | httpcore2.UnsupportedProtocol):
        return Failure(f"{where}: the request can't be sent ({type(error).__name__})", "fatal", code="request")
    if isinstance(error, httpcore2.NetworkError | httpcore2.ProtocolError):
        return Failure(f"{where}: the connection was cut ({said})", "transient", code="cut")
    return Failure(f"{where}: {type(error).__name__}", "transient", code="cut")


def place_of(backend: Backend) -> str:
    """Return the name of a backend for messages."""
    return backend.base_url if backend.name == URL else f"{backend.name} ({backend.base_url})"


def root_of(error: BaseException) -> BaseException:
    """Return the original cause of an error."""
    seen = 0
    while (cause := error.__cause__ or error.__context__) is not None and seen < 10:
        error, seen = cause, seen + 1
    return error


def compression_failure(packed: str, status: int, backend: Backend) -> Failure:
    """Return the failure for a compressed response, since requests do not ask for one."""
    said = shown_name(packed, LONGEST)
    told = f"{place_of(backend)} answered with status {status}, and in a form that was not asked for ({said})"
    return Failure(told, "fatal" if status < 400 else None, status=status, code="compressed")


def redirect_failure(status: int, target: str, backend: Backend) -> Failure:
    """Return the failure for a redirection: following it could send the key and the conversation to another host."""
    return Failure(
        f"{place_of(backend)} redirects to {shown_name(target or 'nowhere', LONGEST)}, which is not "
        "followed, since it would take the conversation there; set base_url= to it if it is right",
        "fatal",
        status=status,
        code="redirect",
    )
