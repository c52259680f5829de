"""Ids of what can go wrong between a checkpoint and its answers."""

from __future__ import annotations

from etir.diagnostics import ErrorId, EtirError, define

E1601 = define(
    "E1601",
    "the checkpoint cannot be read",
    "give a GGUF file, or the folder of a Hugging Face checkpoint with its config.json and *.safetensors",
)
E1602 = define(
    "E1602",
    "the checkpoint is damaged",
    "copy or download it again, and compare its size and digest with the publisher's",
)
E1603 = define(
    "E1603",
    "the architecture is not known",
    "take the Hugging Face folder of the same model, which transformers reads by itself, or a model of an architecture "
    "in the table of `docs/guide/language_models.md`",
)
E1604 = define(
    "E1604",
    "a tensor has a type that cannot be read",
    "take a file of the same model with types of `docs/guide/language_models.md`: Q4_0, Q8_0, Q4_K_M, F16",
)
E1605 = define(
    "E1605",
    "the checkpoint lacks weights of the model",
    "download all files of the checkpoint; config.json and weights have to be of the same model",
)
E1606 = define(
    "E1606",
    "the tokenizer cannot be used",
    "take the tokenizer.json that was published with the weights (--tokenizer)",
)
E1607 = define(
    "E1607",
    "there is no such context",
    "--context is at most what the model was trained for, --max-prefill at most the context",
)
E1608 = define(
    "E1608",
    "the recipe cannot be carried out",
    "recipes are fp32, fp16, int8, int4 and 8da4w; 8da4w needs kernels for integers: --target etir, or --delegate "
    "xnnpack",
)
E1609 = define(
    "E1609",
    "a package for language models is not installed",
    "install them with `pip install 'etir[llm]'`",
)
E1610 = define(
    "E1610",
    "the model cannot be exported",
    "transformers exports decoders with a static cache; `docs/guide/language_models.md` has those that are tested",
)

E1611 = define(
    "E1611",
    "the model does not work with a static cache",
    "its code in transformers assumes a cache that grows; take a model of those in `docs/guide/language_models.md`",
)

E1701 = define(
    "E1701",
    "the tokenizer is damaged",
    "pass a tokenizer.json of Hugging Face's tokenizers, a .gguf, a .model of sentencepiece or a .tiktoken file, whole",
)
E1702 = define(
    "E1702",
    "the tokenizer has a part of a kind that is not known",
    "docs/guide/chat.md lists the kinds; convert the tokenizer to one of them",
)
E1703 = define(
    "E1703",
    "a regular expression is not understood",
    "docs/guide/chat.md says what expressions may have; write it without the rest",
)
E1704 = define(
    "E1704",
    "a regular expression takes too long",
    "write the expression of the tokenizer so that it does not go back over the text again and again",
)
E1705 = define("E1705", "the vocabulary has no such token", "ids are below the tokenizer's vocabulary_size")
E1706 = define(
    "E1706", "the tokenizer has no tokens for a text", "use a tokenizer with an unknown token or with tokens for bytes"
)
E1711 = define(
    "E1711",
    "the chat template fails",
    "the message is the template's own or that of its sandbox; pass another with --chat",
)
E1712 = define(
    "E1712", "the model has no chat template", "pass a model.chat.json with one (--chat), or a prompt as it is (--raw)"
)
E1713 = define("E1713", "the description of the chat is damaged", "write model.chat.json again: et-llm compile does")
E1714 = define(
    "E1714",
    "the chat template has no compiled form",
    "render the chat in Python; C++ takes templates that put fixed texts around each message",
)
E1721 = define(
    "E1721",
    "the program is no language model",
    "compile one with et-llm compile; docs/guide/chat.md has what methods it has to have",
)
E1722 = define(
    "E1722", "the context is full", "shorten the text, begin a new session, or compile the model for a larger context"
)
E1723 = define(
    "E1723",
    "the model gave logits that are no numbers",
    "the weights or the input are damaged, or the dtype has too "
    "small a range: et-compare finds the first wrong instruction",
)
E1724 = define("E1724", "a setting of the sampler is out of its range", "see etir.llm.Sampling")
E1725 = define("E1725", "the saved session cannot be used", "restore it into a session of the program that saved it")
E1726 = define("E1726", "more tokens are to be taken back than there are", "the session's `tokens` are what there is")
E1727 = define(
    "E1727",
    "the tokens are none of the model",
    "a prompt has at least one token; ids are below the model's vocabulary_size",
)
E1728 = define(
    "E1728",
    "no token is possible",
    "the grammar allows none of the tokenizer's tokens, or every logit is minus infinity",
)
E1729 = define(
    "E1729",
    "the session was used for something else",
    "end one answer before the next begins, or use a session for each",
)
E1731 = define("E1731", "the tokenizer is of another model", "pass the tokenizer that the model was trained with")
E1732 = define("E1732", "the lengths do not fit the model", "prompt and answer together have to fit into its context")
E1733 = define(
    "E1733", "the program cannot be loaded or run", "the message is the runtime's; et-run model.pte shows more of it"
)

_BY_NUMBER: dict[int, ErrorId] = {
    1701: E1701,
    1702: E1702,
    1703: E1703,
    1704: E1704,
    1705: E1705,
    1706: E1706,
    1713: E1713,
    1714: E1714,
    1721: E1721,
    1722: E1722,
    1723: E1723,
    1724: E1724,
    1725: E1725,
    1726: E1726,
    1727: E1727,
    1728: E1728,
    1729: E1729,
    1731: E1731,
    1733: E1733,
}
"""The causes of ``runtime/llm/failure.h``."""


def failure(number: int, message: str) -> EtirError:
    """The exception for a failure of the native module, which finds this function by its name."""
    return EtirError([_BY_NUMBER[number].diagnostic(message)])


# --- E1741 to E1755: the server ---------------------------------------------------------------------------------------

E1741 = define("E1741", "the server's packages are not installed", "pip install 'etir[serve]'")
E1742 = define("E1742", "cannot listen at the address", "choose another port: --port 0 takes a free one")
E1743 = define(
    "E1743",
    "the address can be reached from other machines",
    "the server asks nobody for a password: put a proxy that does before it, then pass --allow-remote",
)
E1744 = define("E1744", "the request is not understood", "docs/guide/serving.md lists what a request may say")
E1745 = define("E1745", "the request is too large", "send less, or start the server with a larger limit")
E1746 = define(
    "E1746",
    "the request comes from a page or for a host that is not this server's",
    "call it as localhost or 127.0.0.1, or name the host with --allow-host",
)
E1747 = define("E1747", "there is no such model", "GET /v1/models lists the model that is served")
E1748 = define("E1748", "too many requests are waiting", "try again after the seconds of the header Retry-After")
E1749 = define(
    "E1749", "the prompt does not fit into the context", "shorten it, or compile the model with a larger context"
)
E1750 = define(
    "E1750", "the answer took too long", "ask for fewer tokens, or start the server with a larger --time-limit"
)
E1751 = define("E1751", "the model failed", "the message says why; the server goes on with the next request")
E1752 = define("E1752", "the server is stopping", "send the request again when it has started anew")
E1753 = define("E1753", "the request did not arrive in time", "send the whole request at once")
E1754 = define("E1754", "there is no such address", "docs/guide/serving.md lists the addresses and their methods")

# --- E1760 to E1769: perplexity ---------------------------------------------------------------------------------------

E1760 = define("E1760", "there is too little text", "pass a text of at least two tokens; some thousands say something")
E1762 = define("E1762", "the window does not fit", "choose a --window up to the file's context and a --stride up to it")
E1764 = define("E1764", "the reference is of another vocabulary", "pass the checkpoint that the file was compiled from")

# --- E1770 to E1779: speculative decoding -----------------------------------------------------------------------------

E1770 = define(
    "E1770",
    "the file gives only the last position's logits",
    "compile it with all logits: drafted tokens are checked in one call",
)
E1771 = define(
    "E1771", "the draft model has another vocabulary", "take a draft of the same family, with the same tokenizer"
)
