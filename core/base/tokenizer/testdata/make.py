"""Writes tokenizers.json: small tokenizers, trained here on sentences of our own, and what the package tokenizers makes of awkward texts.

    pip install tokenizers==0.23.3
    python make.py
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """A rank waits for the other ranks. The bucket is full, so the ranks reduce it.
Don't stop: we'll resume from step 1200, they've saved 35 checkpoints, and I'm sure it's fine.
Résumé, naïve, Zürich, Ελλάδα, Москва, 東京, 서울, עברית, العربية.
for i in range(10):\n    print(i, i * i)\n
The loss fell from 4.17 to 1.88 in 2000 steps; the other loss fell, too.
""" * 3

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

AWKWARD = [
    "", " ", "  ", "\n", "\r\n", "\t\t", "a", "The ranks reduce it.", "  two  spaces   at ends  ", "trailing space ", " leading",
    "don't DON'T we'll It'S they'VE 'tis 'S 'x'", "it'\u017f", "line one\r\nline two\r\n\r\n\r\nend\n\n", "tabs\tand\u00a0no-break\u2003em\u3000wide",
    "1 12 123 1234 12345678 3.14 1e-5 ١٢٣ ² ½ Ⅷ", "e\u0301 é a\u0308\u0323 ﬁ Å \u212b ǅ İ ß ΑΣ ſ", "\u0301start \u0301 \u200d", "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇨🇭 ☕️",
    "עברית و العربية ‏mixed‎ text", "東京は大きい。서울 ไทยภาษา", "\ufeffBOM", "nul\u0000byte \u0001\u007f\u0085\u2028", "x" * 70, "ranks" * 12, "a.b,c;d:e!f?g(h)[i]{j}<k>",
    "snake_case camelCase HTTPServer2Go", "def f(x):\n\treturn x**2  # ²\n", "$5 +5 =5 ^ ` ~ | © ™ €", "<|end|>", "a<|end|>b <|end|> c<|end|><|end|>",
    "the [word] and sword[word]s, wordy word", "  [left] x", "x [left]  [right]  y", "CAFÉ café CAFE\u0301", "\U0010ffff \ufffd \ue000", "<0x41> <unk> ▁ ▁▁x", "\u00adsoft\u200bzero", "...!!!\n///\n\n//\r\n",
]


def trained(tok, size, special=(), **kw):
    tok.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, **kw))
    return tok


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return trained(t, 330, ["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def roberta_like():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    return trained(t, 300, ["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def split_bytes(pattern, ignore):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trained(t, 330, ["<|begin|>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.post_processor = processors.TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=[("<|begin|>", 0), ("<|end|>", 1)])
    d = json.loads(t.to_str())
    d["model"]["ignore_merges"] = ignore
    if ignore:
        v = d["model"]["vocab"]
        v["ranks"] = len(v)  # a whole word that no merge gives
    return Tokenizer.from_str(json.dumps(d))


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return trained(t, 400, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=60)


def metaspace(scheme, fuse):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(prepend_scheme=scheme), decoders.Metaspace(prepend_scheme=scheme)
    return trained(t, 160, ["<unk>", "<|end|>"], limit_alphabet=50)


def words():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation()])
    t.decoder = decoders.BPEDecoder()
    return trained(t, 200, ["<unk>"], end_of_word_suffix="</w>")


def parts(behavior, invert):
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", behavior, invert), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.WhitespaceSplit()])
    return trained(t, 200, ["<unk>"], continuing_subword_prefix="##")


def added():
    t = gpt2()
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    t.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("[left]", lstrip=True, normalized=False),
                  AddedToken("[right]", rstrip=True, normalized=False), AddedToken("CAFÉ", normalized=True), AddedToken("[word]", normalized=False),
                  AddedToken("the", normalized=True, single_word=True)])
    return t


def bert():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    trained(t, 200, ["<unk>", "<s>", "</s>"], continuing_subword_prefix="##", limit_alphabet=60)
    t.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    return t


def roberta():
    t = roberta_like()
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    t.add_special_tokens(["<s>", "</s>"])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def bytes_first():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.FixedLength(length=7)])
    t.decoder = decoders.ByteLevel()
    return trained(t, 330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def main():
    out = {}
    made = {
        "gpt2": gpt2(), "prefix space": roberta_like(), "llama3": split_bytes(LLAMA3, True), "qwen2": split_bytes(QWEN2, False), "o200k": split_bytes(O200K, False),
        "llama2": llama2(), "metaspace first": metaspace("first", True), "metaspace always": metaspace("always", False), "metaspace never": metaspace("never", True),
        "words": words(), "added": added(), "bert": bert(), "roberta": roberta(), "bytes first": bytes_first(),
    }
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        made["split " + behavior] = parts(behavior, False)
    made["split inverted"] = parts("isolated", True)
    for name, t in made.items():
        cases = []
        for text in AWKWARD:
            ids = t.encode(text).ids
            plain = t.encode(text, add_special_tokens=False).ids
            case = {"text": text, "plain": plain, "decoded": t.decode(plain)}
            if ids != plain:
                case["ids"] = ids
            if case["decoded"] == text:
                del case["decoded"]
            cases.append(case)
        out[name] = {"tokenizer": json.loads(t.to_str()), "vocabulary": t.get_vocab_size(), "cases": cases}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers.json"), "w") as f:
        json.dump(out, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
