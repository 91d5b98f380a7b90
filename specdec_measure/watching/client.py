"""Requests to one server, bounded in time and size; nothing is sent to any other host."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from specdec_core.foundations.errors import SpecdecError

MAX_PAGE = 8_000_000  # bytes of a page of metrics or of a list
MAX_ANSWER = 16_000_000  # bytes of one answer's stream
MAX_LINE = 1_000_000  # bytes of one event


class WatchError(SpecdecError):
    """A server that cannot be watched; one sentence."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a stream, and when it arrived, in seconds since the request was sent."""

    at: float
    line: bytes


class Server:
    """One server by its address.

    Raises:
        WatchError: one sentence, if the address is none of http or https.
    """

    def __init__(self, url: str, timeout: float = 60.0, key: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.username:
            raise WatchError(
                f"'{url[:200]}' is no address of a server; expected such as http://127.0.0.1:8000."
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._secure = parts.hostname, port, parts.scheme == "https"
        self._path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/metrics")
        self._timeout, self._key = timeout, key

    def get(self, path: str) -> str:
        """The text of a page.

        Raises:
            WatchError: one sentence, if there is none.
        """
        data = b"".join(event.line for event in self._ask("GET", path, None, MAX_PAGE))
        return data.decode("utf-8", "replace")

    def stream(self, path: str, body: dict[str, Any]) -> list[Event]:
        """The lines of a streamed answer.

        Raises:
            WatchError: one sentence, if there is none.
        """
        return list(self._ask("POST", path, body, MAX_ANSWER))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, most: int) -> Iterator[Event]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        late, answer = threading.Event(), None
        opened: list[
            socket.socket
        ] = []  # http.client forgets its own once an answer ends with the connection

        def stop() -> None:  # a server that sends a byte now and then never runs into the socket's own limit
            late.set()
            for one in opened:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        watchdog = threading.Timer(self._timeout, stop)
        watchdog.daemon = True
        headers = {"Accept": "*/*"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            watchdog.start()
            began = time.perf_counter()
            connection.connect()
            opened.append(connection.sock)
            connection.request(
                method, self._path + path, json.dumps(body) if body is not None else None, headers
            )
            answer = connection.getresponse()
            self._check(answer, path)
            yield from self._lines(answer, path, began, most)
        except WatchError:
            raise
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
            # ending the connection from beside makes http.client stumble over what is gone
            raise self._failed(path, error, late.is_set() or isinstance(error, TimeoutError)) from None
        finally:
            watchdog.cancel()
            connection.close()
            if answer is not None:
                answer.close()
        if late.is_set():
            raise self._failed(path, TimeoutError(), True)

    def _check(self, answer: http.client.HTTPResponse, path: str) -> None:
        where = f"{self.url}{path}"
        if 300 <= answer.status < 400:
            to = urlsplit(answer.headers.get("Location", "")).netloc or "another path"
            raise WatchError(
                f"{where} sends on to {to[:100]}; that is not followed. Give the address itself."
            )
        if answer.status != 200:
            said = answer.read(2_000).decode("utf-8", "replace")
            said = said.replace(self._key, "…") if self._key else said
            raise WatchError(f"{where} answers with HTTP {answer.status}: {' '.join(said.split())[:200]}")

    def _lines(self, answer: http.client.HTTPResponse, path: str, began: float, most: int) -> Iterator[Event]:
        size = 0
        while line := answer.readline(MAX_LINE):
            size += len(line)
            if size > most or len(line) == MAX_LINE:
                limit = MAX_LINE if len(line) == MAX_LINE else most
                raise WatchError(f"{self.url}{path} sends more than {limit:,} bytes; it is not read on.")
            yield Event(time.perf_counter() - began, line)

    def _failed(self, path: str, error: Exception, late: bool) -> WatchError:
        if late:
            return WatchError(f"{self.url}{path} did not answer within {self._timeout:g} seconds.")
        if isinstance(error, ConnectionRefusedError):
            return WatchError(f"Nothing answers at {self.url}: is the server started there?")
        return WatchError(f"{self.url}{path} could not be read: {str(error)[:200] or type(error).__name__}.")
