"""A tab without a browser: speaks Streamlit's protocol to the app, as its front end would."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.typing import Origin, Subprotocol


@dataclass
class Tab:
    """One session: what it has open, what its page shows, and how long its answers took.

    Attributes:
        page: its page's name in the address.
        cookie: the header that says whose it is; empty for a browser that keeps no cookies.
        below: the path of the host name that the app is below.
    """

    port: int
    page: str = "course"
    cookie: str = ""
    below: str = ""
    query: dict[str, str] = field(default_factory=dict)
    widgets: dict[str, tuple[str, Any]] = field(default_factory=dict)
    elements: dict[str, Any] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    socket: Any = None
    seen: dict[str, ForwardMsg] = field(default_factory=dict)

    async def open(self) -> None:
        """Connect, as a new tab does."""
        address = f"ws://127.0.0.1:{self.port}{self.below}/_stcore/stream"
        origin = Origin(f"http://127.0.0.1:{self.port}")
        self.socket = await websockets.connect(
            address,
            subprotocols=[Subprotocol("streamlit")],
            origin=origin,
            additional_headers={"Cookie": self.cookie} if self.cookie else None,
            max_size=None,
            open_timeout=60,
        )

    async def ask(self, trigger: str | None = None) -> None:
        """Render the page, with a button pressed if one is named, and wait until it is complete."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string = urlencode(self.query)
        state.page_name = self.page
        state.cached_message_hashes.extend(self.seen)
        for name, (kind, value) in self.widgets.items():
            one = state.widget_states.widgets.add(id=name)
            if isinstance(value, list):
                getattr(one, kind).data.extend(value)
            else:
                setattr(one, kind, value)
        if trigger is not None:
            state.widget_states.widgets.add(id=trigger).trigger_value = True
        began = time.perf_counter()
        await self.socket.send(message.SerializeToString())
        self.elements = {}
        while True:
            answer = ForwardMsg.FromString(await asyncio.wait_for(self.socket.recv(), 60))
            if answer.WhichOneof("type") == "ref_hash":
                answer = self.seen[answer.ref_hash]
            elif answer.metadata.cacheable:
                self.seen[answer.hash] = answer
            kind = answer.WhichOneof("type")
            if kind == "page_info_changed":
                self.query = dict(parse_qsl(answer.page_info_changed.query_string))
            elif kind == "delta" and answer.delta.WhichOneof("type") == "new_element":
                self._keep(answer.delta.new_element)
            elif kind == "script_finished":
                if answer.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    continue
                break
        self.waits.append(time.perf_counter() - began)

    def _keep(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(
                f"{urlencode(self.query)}: {element.exception.type} {element.exception.message}"
            )
        name = getattr(getattr(element, kind), "id", "")
        if name:
            self.elements[name] = element

    def named(self, key: str) -> str | None:
        """The id of the widget with this key, if it is on the page."""
        return next((name for name in self.elements if name.endswith(f"-{key}")), None)
