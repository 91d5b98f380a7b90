"""Which instructions does a chat target answer for its own training text? Made from the corpus and from short lists.

A head or a draft has to guess what the target writes, so only the instructions come from outside; the answers
are the target's own (`answers.py`). Seven kinds: chat, code, story, list, arithmetic, rewriting and summarising.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.data.documents import read_records, read_texts, require

LISTS = Path(__file__).with_name("topics.toml")
LONGEST_PASSAGE = 420  # characters; a prompt costs the target as much per token as an answer does
LONGEST_CODE = 380


@dataclass(frozen=True)
class Instruction:
    """What a user would type, and its kind."""

    kind: str
    text: str


OWN = "own"  # a user's turn that the target made up (`waves.py`)
KINDS = {  # shares of the instructions
    "chat": 0.30,
    "code": 0.21,
    "story": 0.07,
    "list": 0.06,
    "arithmetic": 0.06,
    "rewrite": 0.20,
    "summary": 0.10,
    OWN: 0.0,
}


class Writer:
    """Writes instructions of each kind from `corpus`, by chance that depends on the seed alone."""

    def __init__(self, corpus: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lists: dict[str, list[str]] = tomllib.loads(LISTS.read_text(encoding="utf-8"))
        self.passages = list(_passages(corpus))
        self.functions: list[str] = [
            record["code"].strip()
            for record in read_records(require(corpus, "code_functions.jsonl.xz"))
            if len(record["code"]) <= LONGEST_CODE
        ]
        self.tasks: list[str] = [
            record["prompt"]
            for record in read_records(require(corpus, "code_mbpp.jsonl.xz"))
            if record["split"] != "test"
        ]
        self.described: list[str] = [
            record["instruction"].split("\n")[0]
            for record in read_records(require(corpus, "code_functions.jsonl.xz"))
            if 20 <= len(record["instruction"].split("\n")[0]) <= 90
        ]
        self.sums: list[str] = [
            record["question"] for record in read_records(require(corpus, "math_gsm8k_train.jsonl.xz"))
        ]
        self.questions: list[tuple[str, str]] = [
            (record["context"], record["question"])
            for record in read_records(require(corpus, "qa_fairytaleqa.jsonl.xz"))
            if record["split"] != "test" and len(record["context"]) <= LONGEST_PASSAGE
        ]

    def chat(self) -> str:
        if self.questions and self.chance.random() < 0.06:
            passage, question = self.chance.choice(self.questions)
            return f"{passage}\n\n{question}"
        return self.chance.choice(self.lists["questions"]).format(
            topic=self.chance.choice(self.lists["topics"]),
            other=self.chance.choice(self.lists["topics"]),
            activity=self.chance.choice(self.lists["activities"]),
            place=self.chance.choice(self.lists["places"]),
        )

    def code(self) -> str:
        choice = self.chance.random()
        if choice < 0.35:
            return self.chance.choice(self.tasks).replace("Write a function", "Write a Python function")
        if choice < 0.55:
            return f"Write a Python function: {self.chance.choice(self.described)}"
        if choice < 0.85:
            return self.chance.choice(self.lists["requests"]).format(
                task=self.chance.choice(self.lists["code_tasks"])
            )
        ask = ("Explain what this code does:", "What does this function do?", "Find a problem in this code:")
        return f"{self.chance.choice(ask)}\n\n{self.chance.choice(self.functions)}"

    def story(self) -> str:
        return self.chance.choice(self.lists["story_parts"]).format(
            topic=self.chance.choice(self.lists["topics"]),
            other=self.chance.choice(self.lists["topics"]),
            place=self.chance.choice(self.lists["places"]),
            name=self.chance.choice(self.lists["names"]),
            activity=self.chance.choice(self.lists["activities"]),
        )

    def listing(self) -> str:
        ask = self.chance.choice(
            (
                "List {n} facts about {topic}.",
                "Give me {n} tips for {activity}.",
                "Name {n} things to see in {place}.",
                "Give me {n} ideas for a project about {topic}.",
                "What are {n} reasons for {activity}?",
                "Make a checklist for {activity}.",
                "Give {n} steps for {activity}.",
                "Write {n} questions about {topic} for a quiz.",
            )
        )
        return ask.format(
            n=self.chance.choice(("three", "five", "4", "5", "6", "seven", "10")),
            topic=self.chance.choice(self.lists["topics"]),
            activity=self.chance.choice(self.lists["activities"]),
            place=self.chance.choice(self.lists["places"]),
        )

    def arithmetic(self) -> str:
        if self.chance.random() < 0.6:
            return self.chance.choice(self.sums)
        first, second = self.chance.randint(2, 99), self.chance.randint(2, 99)
        ask = (
            "What is {a} {s} {b}?",
            "Calculate {a} {s} {b}.",
            "{a} {s} {b} = ?",
            "How much is {a} {s} {b}? Show the steps.",
        )
        return self.chance.choice(ask).format(a=first, b=second, s=self.chance.choice("+-*"))

    def rewrite(self) -> str:
        ask: tuple[str, ...]
        if self.chance.random() < 0.35:
            ask = (
                "Add a docstring to this function:",
                "Rename the variables in this function to clearer names:",
                "Add type hints to this function:",
                "Add comments to this code:",
                "Rewrite this function with a different name:",
                "Copy this code and change nothing:",
            )
            return f"{self.chance.choice(ask)}\n\n{self.chance.choice(self.functions)}"
        passage = self.chance.choice(self.passages)
        names = re.findall(r"(?<=[a-z,] )[A-Z][a-z]{2,}", passage)
        if names and self.chance.random() < 0.4:
            old, new = self.chance.choice(names), self.chance.choice(self.lists["names"])
            ask = (
                "Rewrite this text and replace {old} with {new}:",
                "Change the name {old} to {new} in this text:",
            )
            return f"{self.chance.choice(ask).format(old=old, new=new)}\n\n{passage}"
        ask = (
            "Fix the spelling and grammar of this text:",
            "Rewrite this in the present tense:",
            "Rewrite this politely:",
            "Make this text shorter:",
            "Repeat this text exactly:",
            "Rewrite this text in simpler words:",
            "Correct this text:",
            "Turn this into a numbered list:",
        )
        return f"{self.chance.choice(ask)}\n\n{passage}"

    def summary(self) -> str:
        ask = (
            "Summarize this text:",
            "Summarise in one sentence:",
            "What is this text about?",
            "Give the main points of this text:",
            "Write a title for this text and a summary:",
            "Continue this text:",
        )
        return f"{self.chance.choice(ask)}\n\n{self.chance.choice(self.passages)}"


def instructions(corpus: Path, seed: int) -> Iterator[Instruction]:
    """Instructions without end, in an order that depends on the seed alone; repeats are rare."""
    writer = Writer(corpus, seed)
    chance = writer.chance
    makers = {
        "chat": writer.chat, "code": writer.code, "story": writer.story, "list": writer.listing,
        "arithmetic": writer.arithmetic, "rewrite": writer.rewrite, "summary": writer.summary,
    }  # fmt: skip
    kinds, shares = list(KINDS), list(KINDS.values())
    while True:
        kind = chance.choices(kinds, shares)[0]
        text = makers[kind]().strip()
        if chance.random() < 0.12:  # people type like this
            text = text[0].lower() + text[1:].rstrip(".?")
        yield Instruction(kind, text)


def _passages(corpus: Path) -> Iterator[str]:
    """Whole sentences from the beginnings of simple texts."""
    for name in ("stories_tinystories.txt.xz", "stories_asp_prathambooks.txt.xz"):
        for text in read_texts(require(corpus, name)):
            taken = ""
            for sentence in re.split(r"(?<=[.!?])\s+", text):
                if len(taken) + len(sentence) > LONGEST_PASSAGE:
                    break
                taken = f"{taken} {sentence}".strip()
            if len(taken) > 120:
                yield taken
