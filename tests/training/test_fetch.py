"""Is a fetched archive read safely, and do the transforms turn files into documents? (No network here.)"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from training.data.archive import read_tarball
from training.data.documents import read_records, read_texts
from training.data.fetch import download, load_sources, write_source
from training.data.transforms import TRANSFORMS

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tarball(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, where in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, where
            archive.addfile(entry)
    return out.getvalue()


def test_wanted_files_are_read_and_links_are_skipped() -> None:
    top = f"repo-{COMMIT}"
    data = tarball(
        {f"{top}/src/a.py": b"x = 1\n", f"{top}/src/b.txt": b"no", f"{top}/test/c.py": b"y = 2\n"},
        {f"{top}/src/link.py": "/etc/passwd"},
    )
    assert list(read_tarball(data, COMMIT[:12], ["*.py"], ["test/*"])) == [("src/a.py", b"x = 1\n")]


@pytest.mark.parametrize("name", ["top-{0}/../../evil.py", "/etc/evil.py", "top-{0}/a\\..\\b.py"])
def test_a_path_that_escapes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unsafe path"):
        list(read_tarball(tarball({name.format(COMMIT): b"x"}), COMMIT[:12], ["*"]))


def test_another_commit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'ffff'"):
        list(read_tarball(tarball({f"repo-{COMMIT}/a.py": b"x"}), "ffff", ["*"]))


def test_sizes_are_bounded() -> None:
    data = tarball({f"repo-{COMMIT}/a.py": b"x" * 2000})
    with pytest.raises(ValueError, match="at most 100"):
        list(read_tarball(data, COMMIT[:12], ["*"], max_file=100))
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        list(read_tarball(data, COMMIT[:12], ["*"], max_total=1000))


def test_python_files_become_documents(tmp_path: Path) -> None:
    good = "def add(a, b):\n    '''Add two numbers and return the sum.'''\n    return a + b\n"
    files = [("b.py", good.encode()), ("a.py", good.encode()), ("c.py", b"def ("), ("d.py", b"\xff\xfe")]
    source = {"output": "code_x.txt.xz", "transform": "python_files", "licence": "MIT", "sha256": "0"}
    row = write_source(source, files, tmp_path)
    assert read_texts(tmp_path / "code_x.txt.xz") == [good.strip()]
    assert row["licence"] == "MIT"
    assert not row["as_trained"]
    cut = list(TRANSFORMS["documented_functions"]([("x.py", good.encode())]))
    assert cut[0]["name"] == "add"  # type: ignore[index]


def test_school_and_svamp_records(tmp_path: Path) -> None:
    line = {"question": "How many?", "answer": "2+3=<<2+3=5>>5 apples.\n#### 5"}
    source = {"output": "m.jsonl.xz", "transform": "school_problems", "licence": "MIT", "sha256": "0"}
    write_source(source, [("train.jsonl", json.dumps(line).encode())], tmp_path)
    assert read_records(tmp_path / "m.jsonl.xz") == [
        {"question": "How many?", "solution": "2+3=5 apples.", "answer": "5"}
    ]
    svamp = [{"Body": "Tom has 5.", "Question": "How many?", "Equation": "( 5.0 - 2.0 )", "Answer": 3.0}]
    got = list(TRANSFORMS["svamp_problems"]([("SVAMP.json", json.dumps(svamp).encode())]))
    assert got[0]["equation"] == "5 - 2"  # type: ignore[index]
    assert got[0]["answer"] == "3"  # type: ignore[index]


def test_fairytale_rows_without_a_known_split_are_dropped() -> None:
    questions = b"cor_section,question,answer1,ex-or-im1\n1,Who?,the cat,explicit\n"
    story = b"section,text\n1,The cat sat.\n"
    files = [
        ("x/test/s-questions.csv", questions),
        ("x/y/s-questions.csv", questions),
        ("x/z/s-story.csv", story),
    ]
    got = list(TRANSFORMS["fairytale_questions"](files))
    assert [(row["split"], row["context"]) for row in got] == [("test", "The cat sat.")]  # type: ignore[index]


def test_nothing_fetched_is_an_error_and_http_is_refused(tmp_path: Path) -> None:
    source = {"output": "x.txt.xz", "transform": "python_files", "licence": "MIT", "sha256": "0"}
    with pytest.raises(ValueError, match="include globs"):
        write_source(source, [], tmp_path)
    with pytest.raises(ValueError, match="not an https address"):
        download("http://example.org/x")


def test_the_shipped_source_list_is_complete() -> None:
    sources = load_sources()
    assert len(sources) == 21
    assert all(source["licence"] for source in sources)
    assert not any(source["output"].startswith("eval_") for source in sources)
    assert lzma.decompress(lzma.compress(b"x")) == b"x"
