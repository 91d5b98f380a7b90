"""What the words mean; every help text of the page leans on these."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "Token": "A piece of text the model reads and writes at once: a word, part of a word, a sign or a space.",
    "Target model": "The model whose text we want. It is large and slow; every token of the output is its decision.",
    "Draft model": "A small, fast model that guesses what the target will write. Its guesses are checked, never trusted.",
    "Proposer": "Whoever makes the guesses: a draft model, a search in the text so far, or nobody (plain decoding).",
    "Proposal tree": "The guesses of one round. Its root is the last committed token; a chain is a tree without branches.",
    "Draft length γ": "How many tokens are guessed per round before the target checks them (gamma).",
    "Acceptance rule": "How the target's check decides which guesses stay.",
    "Round": "Propose, verify, judge, commit: one turn of the loop. It always commits at least one token.",
    "Target pass": "One run of the target model. It costs about the same for one token as for a few, which is the whole trick.",
    "Prefill": "Reading the prompt, all but its last token, before the first round. It is timed apart.",
    "p and q": "p is the probability the target gives a token, q the one its proposer gave it.",
    "Coin": "The random number u that decides about a guess: it passes if u is below min(1, p/q).",
    "Accepted": "A guess the rule let through. It costs no target pass of its own.",
    "Rejected": "The first guess the rule refused. Everything proposed after it falls with it.",
    "Unreached": "A guess behind a rejected one. It was never judged, so it counts for nothing.",
    "Residual": "What is left of p where q promised too much: norm(max(0, p − q)).",
    "Corrected token": "The token drawn from the residual after a rejection. It makes the result exact.",
    "Bonus token": "The extra token the target's pass yields when every guess was accepted.",
    "Committed token": "A token that is part of the text for good.",
    "Acceptance rate α": "Accepted guesses divided by judged guesses. Unreached guesses were not judged and do not count.",
    "Tokens per target pass τ": "Committed tokens divided by target passes after the prefill, bonus and corrected tokens included. "
    "Plain decoding has exactly 1. Papers also call it block efficiency.",
    "Cost ratio c": "Time of one draft pass divided by the time of one target pass over a single token.",
    "Width curve T(n)": "How long a target pass over n tokens takes. Speculation pays while this curve is flat.",
    "Measured speedup": "Time per token of plain decoding divided by that of the other lane, both taken in the same run on the same machine.",
    "Modelled speedup": "What a formula predicts from α, γ and c. It is shown beside the measurement, never instead of it.",
    "Greedy": "Temperature 0: always the likeliest token. Both lanes then write the same text.",
    "Lossless": "The output follows exactly the target's own distribution. It is proved, not hoped for.",
    "Provenance": "Where a number comes from: exact (proved), measured (here, now), recorded (elsewhere, named) or modelled (a formula).",
}


def define(*terms: str) -> str:
    """The definitions of `terms` as one help text."""
    return "\n\n".join(f"**{term}.** {TERMS[term]}" for term in terms)
