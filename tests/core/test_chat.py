"""Prompts that are messages: the template's tokens are read, the record says so, and other programs get it as well."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

import specdec_core as sd
from specdec_core.models.assembling import assemble
from specdec_core.models.bundle import Models
from specdec_core.models.tokens.chat import MAX_SYSTEM, Branched
from specdec_measure.portable import transformers_vllm as portable
from specdec_measure.sweep import cases
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.run import sweep
from tests.core.tiny import build, tokenizer

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
PLAIN = sd.Settings(proposer="none", max_new_tokens=12)


@pytest.fixture(scope="module")
def models() -> Models:
    """A random Llama whose tokenizer has a chat template."""
    words = copy.deepcopy(tokenizer())
    words.chat_template = TEMPLATE
    return assemble(words, build("llama", vocab_size=300))


def test_a_message_is_decoded_as_its_templated_tokens(models: Models) -> None:
    """Catches: a template that is applied twice, or not at all, or a system line that is lost."""
    for message, system in (("the cat", ""), ("the dog sat", "the cat sat")):
        ids = models.chat(message, system)
        trace = sd.decode(models, sd.Chat(message, system), PLAIN)
        assert trace.token_ids == sd.decode(models, ids, PLAIN).token_ids
        assert trace.header.prompt_ids == ids
        assert (trace.header.prompt, trace.header.chat, trace.header.system) == (message, True, system)
        assert trace.audit() == []
    assert models.chat_text("a", "b") == "<system> b\n<user> a\n<assistant> "
    assert "system" not in models.chat_text("a")


def test_a_branch_of_an_answer_ends_with_the_turn(models: Models) -> None:
    """Catches: an answer that goes on beyond its end after a forced token, a second branch that forgets it is one."""
    first = sd.decode(models, sd.Chat("the cat"), PLAIN)
    plain = sd.decode(models, list(Branched.of(first, 2, 5).ids), PLAIN)
    end = plain.token_ids[-1]
    ending = replace(models, turn_end=end)
    second = sd.decode(ending, Branched.of(first, 2, 5), PLAIN)
    assert second.token_ids == plain.token_ids[: plain.token_ids.index(end) + 1] and second.end == "eos"
    assert not second.header.chat and second.header.branch is not None
    assert Branched.of(second, 0, 5, chat=True).chat and not Branched.of(second, 0, 5).chat


def test_the_record_says_it_and_older_ones_still_open(models: Models) -> None:
    """Catches: a header that loses the template on the way through JSON, and records of before that are refused."""
    trace = sd.decode(models, sd.Chat("the cat", "the dog"), PLAIN)
    assert sd.Trace.from_json(trace.to_json()) == trace
    older = json.loads(sd.decode(models, "the cat", PLAIN).to_json())
    del older["header"]["chat"], older["header"]["system"]
    header = sd.Trace.from_json(json.dumps(older)).header
    assert (header.chat, header.system) == (False, "")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (sd.Chat("  "), "empty"),
        (sd.Chat("a", "b" * (MAX_SYSTEM + 1)), "system line"),
        (sd.Chat("a \ud800"), "half of a character"),
        (sd.Chat("the cat " * 400), "tokens"),
    ],
)
def test_what_cannot_be_a_message_is_refused_in_a_sentence(
    models: Models, prompt: sd.Chat, words: str
) -> None:
    """Catches: limits that hold for plain prompts and not for templated ones."""
    with pytest.raises(sd.PromptError, match=words):
        sd.decode(models, prompt, PLAIN)


def test_the_window_counts_the_templates_tokens(models: Models) -> None:
    """Catches: a prompt that fits by itself and, with its template, runs past what the model can read."""
    room = 256 - len(models.codec.encode("the cat"))
    settings = PLAIN.but(max_new_tokens=room)
    assert sd.stream(models, "the cat", settings) is not None
    with pytest.raises(sd.PromptError, match="reads at most 256"):
        sd.stream(models, sd.Chat("the cat"), settings)


def test_a_model_without_a_template_says_so() -> None:
    """Catches: a message that is sent bare, in silence, to a model that knows no conversations."""
    with pytest.raises(sd.ModelError, match="no chat template"):
        sd.decode(assemble(tokenizer(), build("llama", vocab_size=300)), sd.Chat("the cat"), PLAIN)


def test_a_template_that_refuses_gives_a_sentence() -> None:
    """Catches: a traceback of the template's own, such as for one that takes no system line."""
    words = copy.deepcopy(tokenizer())
    words.chat_template = "{{ raise_exception('no system line') }}"
    with pytest.raises(sd.ModelError, match="refuses this conversation"):
        assemble(words, build("llama", vocab_size=300)).chat_text("a", "b")


def test_a_sweep_tells_messages_and_plain_prompts_apart(models: Models) -> None:
    """Catches: rows of a templated prompt that are taken for those of the same words without a template."""
    plain, message = (Case("own", "one", "the cat", chat=chat) for chat in (False, True))
    rows = {case.chat: next(iter(sweep(models, [case], [PLAIN], repeats=1))) for case in (plain, message)}
    assert rows[False].prompt_sha != rows[True].prompt_sha
    again = list(sweep(models, [message], [PLAIN], repeats=1, known=[rows[False]]))
    assert [row.prompt_sha for row in again] == [rows[True].prompt_sha]
    assert [case.chat for case in cases.fitted([plain, message], template=True)] == [False, True]
    assert not any(case.chat for case in cases.fitted([plain, message], template=False))


def test_every_family_of_prompts_says_for_whom_it_is() -> None:
    """Catches: chat prompts in the tiny family's lists and sweeps, and the other way round."""
    text, chat = ({family.name for family in cases.families(audience=kind)} for kind in ("text", "chat"))
    assert text == set(cases.ORDER) and chat == set(cases.CHAT_ORDER)
    assert not any(case.chat for case in cases.shipped())
    shipped = cases.shipped(audience="chat")
    assert all(case.chat for case in shipped) and {case.family for case in shipped} == chat
    ids = [preset.id for family in cases.families() for preset in family.presets]
    texts = [preset.text for family in cases.families() for preset in family.presets]
    assert len(set(ids)) == len(ids) and len(set(texts)) == len(texts)
    assert all(4 <= len(family.presets) <= 6 for family in cases.families(audience="chat"))


def test_other_programs_read_the_same_tokens(models: Models) -> None:
    """Catches: settings to take along that leave the template out, so that another text comes of them."""
    chat = sd.Chat("the cat", "the 'dog'")
    code = portable.transformers_code(PLAIN, "target", chat=chat)
    lines = code.split("messages = ")[1].split("output =")[0]
    scope = {"tokenizer": models.codec.tokenizer, "prompt": chat.message}  # type: ignore[attr-defined]
    exec(f"messages = {lines}", scope)  # our own generated lines
    assert scope["inputs"]["input_ids"][0].tolist() == models.chat(chat.message, chat.system)
    assert "apply_chat_template" not in portable.transformers_code(PLAIN, "target")
    assert "/v1/chat/completions" in portable.vllm_code(PLAIN, "target", chat=chat)
    assert "/v1/chat/completions" not in portable.vllm_code(PLAIN, "target")
