"""Suffix decoding against prompt lookup: tokens per target pass on edits, and on an agent's repeated prompts.

    python -m benchmarks.repeated                    the bundled models
    python -m benchmarks.repeated --family smollm2-135m-instruct --tokens 64

Edits are the shipped prompts to copy or to rewrite, alone. An agent's prompts are a task and then the same task with
a further sentence, three times; suffix decoding gets the texts of the runs before it, prompt lookup has nothing to get
them by. Both may propose equally many tokens in a round. Passes are counted, so the figures do not depend on the
machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import specdec_core as sd
from specdec_measure.sweep.cases import Audience, Case, shipped

EDITS = {"text": ("copy",), "chat": ("chat-rewrite", "chat-summary")}
TASKS = {"text": ("code", "story", "question"), "chat": ("chat-code", "chat-question", "chat-list")}
FURTHER = ("", "\nBe careful.", "\nCheck each step again.", "\nThe last answer was not accepted.")


def main(argv: Sequence[str] | None = None) -> None:
    """Decode everything and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", default="tiny", help="as for load_models")
    parser.add_argument("--tokens", type=int, default=96, help="written to each prompt")
    parser.add_argument("--most", type=int, default=10, help="tokens that may be proposed in a round")
    parser.add_argument("--prompts", type=int, default=3, help="tasks of each family that an agent repeats")
    given = parser.parse_args(argv)
    models = sd.load_models(given.family)
    audience: Audience = "chat" if given.family != "tiny" else "text"
    edits = shipped(EDITS[audience], audience=audience)
    tasks = shipped(TASKS[audience], most=given.prompts, audience=audience)
    common = {"max_new_tokens": given.tokens, "record": "off"}
    lookup = sd.Settings(proposer="prompt-lookup", draft_length=given.most, **common)
    suffix = sd.Settings(proposer="suffix", options={"nodes": given.most}, **common)
    print(f"{'tokens per target pass':32}{'prompt lookup':>16}{'suffix':>10}{'ratio':>8}")
    for name, series in (("edits", [[case.asked] for case in edits]), ("repeated", [*map(repeated, tasks)])):
        one, other = Count(), Count()
        for prompts in series:
            earlier: list[list[int]] = []
            for prompt in prompts:
                one.add(sd.decode(models, prompt, lookup))
                trace = sd.decode(models, prompt, suffix.but(options={**suffix.options, "earlier": earlier}))
                other.add(trace)
                earlier.append([*trace.header.prompt_ids, *trace.token_ids])
        print(f"{name:32}{one.rate:16.2f}{other.rate:10.2f}{other.rate / one.rate:7.2f}×", flush=True)


def repeated(case: Case) -> list[str | sd.Chat]:
    """A task as an agent repeats it."""
    prompts = [case.prompt if not more else f"{more.strip()}\n{case.prompt}" for more in FURTHER]
    return [sd.Chat(prompt, case.system) if case.chat else prompt for prompt in prompts]


class Count:
    """Tokens and target passes of some runs."""

    def __init__(self) -> None:
        self.tokens = self.passes = 0

    def add(self, trace: sd.Trace) -> None:
        """Count one more run."""
        self.tokens += trace.stats.tokens
        self.passes += trace.stats.target_passes

    @property
    def rate(self) -> float:
        """Tokens per target pass."""
        return self.tokens / self.passes


if __name__ == "__main__":
    main()
