"""What a page remembers between two runs of its script: every value of the session state, with its type.

A `Widget` belongs to Streamlit: it exists while its page draws it, and its key is the name of the attribute, which
links use too. A `Kept` value is the app's own and lasts as long as the session. Keys made at run time (a
lane's form, an option, a picture of the course) are created where they are used.

    state.prompt                    its value
    state.prompt = "Once"           as if the visitor had typed it; before the widget is drawn, or in a callback
    key=State.prompt.key            for the call that draws the widget
    State.prompt.held               whether there is a value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast, overload

import streamlit as st

from app.lanes import page_settings
from app.lanes.fields import Field
from specdec_core.settings import Settings

if TYPE_CHECKING:  # it imports the decoder, which a page without lanes does not need
    from app.decoding.run import Request
    from app.lanes.lane import Lane
    from specdec_measure.watching.numbers import Watched

T = TypeVar("T")
USUAL = Settings()


class _Value(Generic[T]):
    """A value of the session state; `start` makes the initial one."""

    key: str

    def __init__(self, start: Callable[[], T]) -> None:
        self.start = start

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    @overload
    def __get__(self, at: None, owner: type) -> Self: ...
    @overload
    def __get__(self, at: object, owner: type) -> T: ...
    def __get__(self, at: object | None, owner: type) -> Self | T:
        return self if at is None else self.read()

    def __set__(self, at: object, value: T) -> None:
        st.session_state[self.key] = value

    def read(self) -> T:
        """The current value."""
        raise NotImplementedError

    @property
    def held(self) -> bool:
        """Whether there is a value, even the initial one."""
        return self.key in st.session_state


class Widget(_Value[T]):
    """A widget's value."""

    def read(self) -> T:
        """The value; before the widget is drawn, the usual one."""
        value: T = st.session_state.get(self.key, self.start())
        return value


class Kept(_Value[T]):
    """A value of the app's own."""

    def read(self) -> T:
        """The value, the same object each time."""
        value: T = st.session_state.setdefault(self.key, self.start())
        return value

    def take(self) -> T:
        """Remove and return the value."""
        value: T = st.session_state.pop(self.key, self.start())
        return value


class Setting(Widget[T]):
    """A setting of a page's table: its value, or the default while an unusable number is in its box; see `refusal`."""

    def __init__(self, field: Field) -> None:
        super().__init__(cast("Callable[[], T]", field.start))
        self._field = field

    def read(self) -> T:
        """The value; before the widget is drawn, the default."""
        return self.start() if self.refusal() else super().read()

    def refusal(self) -> str | None:
        """Why what its widget holds cannot be used, if so."""
        return self._field.refusal(st.session_state.get(self.key))


def _text(usual: str = "") -> Widget[str]:
    return Widget(lambda: usual)


def _nothing() -> None:
    return None


class State:
    """The state of the session whose script runs."""

    # The prompt and its models
    prompt = _text()
    family = _text()  # of example prompts; see prompt.py for the rest of its key
    example = _text()  # id of an example prompt
    model = _text()
    target: Setting[str] = Setting(page_settings.TARGET)
    draft: Setting[str] = Setting(page_settings.DRAFT)
    device: Setting[str] = Setting(page_settings.DEVICE)
    dtype: Setting[str] = Setting(page_settings.DTYPE)
    chat: Setting[bool] = Setting(page_settings.CHAT)
    system: Setting[str] = Setting(page_settings.SYSTEM)

    # How all lanes decode
    temperature: Setting[float] = Setting(page_settings.TEMPERATURE)
    top_k: Setting[int] = Setting(page_settings.TOP_K)
    top_p: Setting[float] = Setting(page_settings.TOP_P)
    min_p: Setting[float] = Setting(page_settings.MIN_P)
    repetition_penalty: Setting[float | None] = Setting(page_settings.PENALTY)  # None: the model's own
    no_repeat_ngram_size: Setting[int] = Setting(page_settings.NGRAM)
    generation: Setting[bool] = Setting(page_settings.GENERATION)
    seed: Setting[int] = Setting(page_settings.SEED)
    tokens: Setting[int] = Setting(page_settings.TOKENS)
    stop: Setting[list[str]] = Setting(page_settings.STOP)

    # The lab's lane; a lane's form in the comparison has the same keys after its own name (choosing.form)
    proposer = _text(USUAL.proposer)
    gamma: Setting[int] = Setting(page_settings.GAMMA)
    rule = _text(USUAL.rule)
    length = _text(USUAL.length_policy)
    overlap: Setting[bool] = Setting(page_settings.OVERLAP)
    memory: Setting[float] = Setting(page_settings.MEMORY)

    go = Widget(lambda: False)  # whether Run was pressed
    again = Kept(lambda: False)  # whether another button asked for a run
    repeat = Widget(lambda: False)  # whether a comparison is to be repeated
    sweep_start = Widget(lambda: False)  # whether the sweep's start was pressed
    ready_made = _text()  # the comparison chosen from the menu
    tab = _text()  # below the lanes of a comparison
    sweep_families = Widget[list[str]](list)
    sweep_most: Setting[int] = Setting(page_settings.SWEEP_MOST)
    sweep_repeats: Setting[int] = Setting(page_settings.SWEEP_REPEATS)
    sweep_measure: Setting[str] = Setting(page_settings.SWEEP_MEASURE)

    # How a page was opened
    drawn_page = Kept(lambda: "")  # the page whose script ran last
    opened = Kept(lambda: "")  # the page whose address was read; empty while another one is being opened
    lane: Kept[Lane | None] = Kept(_nothing)  # the lab's, as its address last had it
    complaints = Kept[list[str]](list)  # errors in the link it was opened with
    opened_with = Kept[str | None](_nothing)  # the prompt, if the page chose it itself
    last_prompt = Kept[str | None](_nothing)  # of any page
    own_prompt = Kept[str | None](_nothing)  # the visitor's own, while an example is shown
    family_marks = Kept(lambda: 0)  # how often another kind of example was marked than was chosen
    last_picked = Kept[dict[str, str]](dict)  # by widget, the last choice
    settled = Kept[str | None](_nothing)  # the models that the settings were last adapted to

    presented = Kept[bool | None](_nothing)  # whether the whole page was last drawn as a presentation

    # The run
    noted = Kept[dict[str, str]](dict)  # by page, the run that was written to its address
    example_shown = Kept[str | None](_nothing)  # the recorded example shown before it
    onward: Kept[Request | None] = Kept(_nothing)  # the run that is to go on from the one that is shown
    trail = Kept[list[tuple[str, str | None]]](list)  # runs that go on from each other; see running.from_here
    jump = Kept[tuple[str, int]](lambda: ("", 0))  # a run, and how often its player was sent to a position
    not_shared = Kept(lambda: False)  # whether the library could not share the run just now

    # The comparison
    lanes: Kept[dict[str, Lane]] = Kept(
        dict
    )  # in their order, by the names of their forms; without the plain one
    lane_count = Kept(lambda: 0)  # how many names were assigned
    editing = Kept[str | None](_nothing)  # the lane whose form is open
    usual_lanes: Kept[tuple[Lane, ...] | None] = Kept(
        _nothing
    )  # for the models of the last run of the script
    sweep_refused = Kept[str | None](_nothing)  # why a sweep could not be resumed or deleted just now
    look_for = Kept(lambda: "")  # what the chosen comparison demonstrates
    whatif_link = Kept[tuple[list[str], dict[str, str]]](
        lambda: ([], {})
    )  # complaints, the choices they are about

    # Running servers
    server = _text()  # its address, of those that the operator allows
    beside = _text()
    raced = _text()  # the prompt
    watched: Kept[dict[str, Watched]] = Kept(
        dict
    )  # what was found, by the server's address or the record's name
    watched_last = Kept[str | None](_nothing)  # of these, the one that is shown

    # The library
    q = _text()
    who = _text()
    sort = _text()
    sheet = Widget(lambda: 1)
    import_turn = Kept(lambda: 0)  # how often the import box was emptied
    imported = Kept[list[tuple[bool, str]]](
        list
    )  # the result for each file: whether it is valid, and a sentence

    # The course


state = State()
