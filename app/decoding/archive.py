"""Finished traces, packed: a trace of 1,000 tokens is 20 MB of objects and 1 MB packed."""

from __future__ import annotations

import threading
from collections import OrderedDict

from specdec_core.record.trace import Trace

from .api import unpack


class Archive:
    """Traces by name; the last few used are also kept as objects."""

    def __init__(self, unpacked: int = 6) -> None:
        self._unpacked = unpacked
        self._packed: dict[str, bytes] = {}
        self._objects: OrderedDict[str, Trace] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, packed: bytes) -> None:
        """Store a packed trace."""
        with self._lock:
            self._packed[name] = packed

    @property
    def held(self) -> int:
        """How many bytes the packed traces are."""
        with self._lock:
            return sum(map(len, self._packed.values()))

    def json(self, name: str) -> bytes | None:
        """The trace as JSON."""
        with self._lock:
            packed = self._packed.get(name)
        return unpack(packed) if packed is not None else None

    def trace(self, name: str) -> Trace | None:
        """The trace itself."""
        with self._lock:
            if name in self._objects:
                self._objects.move_to_end(name)
                return self._objects[name]
        data = self.json(name)
        if data is None:
            return None
        trace = Trace.from_json(data)
        with self._lock:
            self._remember(name, trace)
        return trace

    def drop(self, name: str) -> None:
        """Forget a trace."""
        with self._lock:
            self._packed.pop(name, None)
            self._objects.pop(name, None)

    def _remember(self, name: str, trace: Trace) -> None:
        self._objects[name] = trace
        self._objects.move_to_end(name)
        while len(self._objects) > self._unpacked:
            self._objects.popitem(last=False)
