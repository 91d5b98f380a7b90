"""The library as a store: what is kept, for whom, within which limits, in which file."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, inspect
from sqlalchemy.schema import CreateSchema
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app import config as policy
from app.records import database, schema, visitor
from app.records.database import Database, LibraryError
from app.records.keys import Keys
from app.records.store import Full, Library, Limits
from app.records.summary import Summary, summarize
from app.room import schema as _rooms  # noqa: F401  # declares its tables
from specdec_core.record.trace import Trace

from . import postgres
from .kept import ANNA, BEN, add


def test_what_is_kept_comes_back_as_it_was(
    library: Library, kept: list[tuple[Summary, bytes]], race_traces: list[Trace]
) -> None:
    run = add(library, kept)
    (saved,) = library.runs_of(ANNA)
    assert saved == library.get(ANNA, run)
    assert [summary for summary, _ in kept] == list(saved.lanes)
    assert [Trace.from_json(library.trace(run, lane, ANNA) or b"") for lane in (0, 1)] == race_traces
    assert saved.bytes == sum(len(zlib.compress(json)) for _, json in kept) + len("abc")


def test_a_summary_says_what_the_trace_says(race_traces: list[Trace]) -> None:
    plain, other = summarize(race_traces, ["a", "b"])
    stats = race_traces[1].stats
    assert (plain.proposer, plain.speedup, plain.lossy) == ("none", None, False)
    assert other.acceptance == stats.accepted / (stats.accepted + stats.rejected)
    assert other.tokens_per_pass == len(race_traces[1].token_ids) / len(race_traces[1].rounds)
    clocks = [trace.rounds[-1].end_s for trace in race_traces]
    assert other.speedup == pytest.approx(clocks[0] / clocks[1], rel=0.05)  # both wrote 24 tokens
    (alone,) = summarize(race_traces[1:], ["b"])
    assert alone.speedup is None  # no baseline in the same run, no speedup


def test_nobody_lists_names_shares_or_deletes_what_belongs_to_another(
    library: Library, kept: list[tuple[Summary, bytes]]
) -> None:
    run = add(library, kept)
    before = library.get(ANNA, run)
    assert library.runs_of(BEN) == []
    for key in (run, run[:-1] + "x", "", "%", "' OR 1=1 --"):
        assert library.get(BEN, key) is None
        assert library.rename(BEN, key, "mine now") is False
        assert library.share(BEN, key) is None
        assert library.revoke(BEN, key) is False
        assert library.delete(BEN, key) is False
        assert library.trace(key, 0, BEN) is None
        assert library.trace(key, 0, None) is None
    assert library.get(ANNA, run) == before


def test_the_file_does_not_hold_the_owner_s_secret(kept: list[tuple[Summary, bytes]], tmp_path: Path) -> None:
    library = Library(tmp_path / "library.sqlite3")
    add(library, kept)
    assert all(ANNA.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    library.close()


def test_a_link_opens_one_run_for_reading_until_it_is_revoked(
    library: Library, kept: list[tuple[Summary, bytes]]
) -> None:
    run, other = add(library, kept), add(library, kept)
    assert library.shared("") is None
    link = library.share(ANNA, run)
    assert link and len(link) >= 24 and link not in (run, library.share(ANNA, other))
    assert library.share(ANNA, run) == link  # the same one again
    found = library.shared(link)
    assert found and found.id == run
    assert library.trace(link, 1, None) == library.trace(link, 1, BEN) == kept[1][1]
    assert library.rename(BEN, link, "x") is library.delete(BEN, link) is library.delete(ANNA, link) is False
    assert library.revoke(ANNA, run)
    assert library.shared(link) is None and library.trace(link, 1, None) is None
    assert library.trace(run, 1, ANNA) == kept[1][1]
    assert library.share(ANNA, run) != link


def test_a_deleted_run_leaves_no_bytes_behind(kept: list[tuple[Summary, bytes]], tmp_path: Path) -> None:
    library = Library(tmp_path / "library.sqlite3")  # PostgreSQL frees and overwrites in its own time
    stays = add(library, kept, prompt="something that stays")
    small = sum(path.stat().st_size for path in tmp_path.iterdir())
    goes = [add(library, kept, prompt="a prompt nobody may read again") for _ in range(12)]
    packed = zlib.compress(kept[1][1])[200:260]

    def places(needle: bytes) -> int:
        return sum(path.read_bytes().count(needle) for path in tmp_path.iterdir())

    assert places(b"nobody may read") >= 12
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 2 * small
    for run in goes:
        assert library.delete(ANNA, run)
        assert library.trace(run, 0, ANNA) is None
    assert places(b"nobody may read") == 0
    assert places(b"something that stays") > 0 and places(packed) == 1
    assert (tmp_path / "library.sqlite3").stat().st_size < small + 100_000
    assert [saved.id for saved in library.runs_of(ANNA)] == [stays]
    library.close()


def test_the_oldest_run_without_a_name_or_a_link_makes_room(
    place: Path | str, kept: list[tuple[Summary, bytes]]
) -> None:
    library = Library(place, limits=Limits(runs=4))
    runs = [add(library, kept) for _ in range(4)]
    library.rename(ANNA, runs[0], "keep me")
    library.share(ANNA, runs[1])
    others = add(library, kept, BEN)
    newer = [add(library, kept), add(library, kept)]
    assert [saved.id for saved in library.runs_of(ANNA)] == [*reversed(newer), runs[1], runs[0]]
    assert [saved.id for saved in library.runs_of(BEN)] == [others]
    for run in newer:
        library.rename(ANNA, run, "and me")
    before = library.runs_of(ANNA)
    with pytest.raises(Full, match=r"Your library is full: it keeps up to 4 runs .* Delete some"):
        add(library, kept)
    assert library.runs_of(ANNA) == before and library.is_full(ANNA) and not library.is_full(BEN)
    library.delete(ANNA, newer[0])
    assert not library.is_full(ANNA)
    library.close()


def test_bytes_are_limited_for_each_owner_and_for_all(
    place: Path | str, kept: list[tuple[Summary, bytes]]
) -> None:
    one = sum(len(zlib.compress(json)) for _, json in kept) + len("abc")
    library = Library(place, limits=Limits(owner_bytes=2 * one, all_bytes=3 * one))
    first, second = add(library, kept), add(library, kept)
    assert library.size(ANNA) == 2 * one
    third = add(library, kept)
    assert [saved.id for saved in library.runs_of(ANNA)] == [third, second]
    assert library.get(ANNA, first) is None
    add(library, kept, BEN)
    add(library, kept, BEN)  # now all together are too many, and Anna's oldest goes
    assert [saved.id for saved in library.runs_of(ANNA)] == [third]
    assert library.size() == 3 * one
    with pytest.raises(Full):
        library.add(ANNA, "x" * 3 * one, kept, origin="measured", machine="", recorded="")
    assert library.size() == 3 * one  # a refusal deletes nothing
    library.close()


def test_named_and_shared_runs_leave_room_for_everybody_s_latest(
    place: Path | str, kept: list[tuple[Summary, bytes]]
) -> None:
    """Catches: invented owners whose named, shared or imported runs fill the library for good."""
    one = sum(len(zlib.compress(json)) for _, json in kept) + len("abc")
    library = Library(place, limits=Limits(all_bytes=4 * one, pinned_bytes=2 * one + 20))
    first, second, third = add(library, kept), add(library, kept), add(library, kept)
    assert library.rename(ANNA, first, "mine") and library.share(ANNA, second)
    assert library.share(ANNA, first) and library.rename(ANNA, second, "both"), (
        "what stays anyway may be both"
    )
    with pytest.raises(Full, match="keeps no more named, shared or imported runs"):
        library.rename(ANNA, third, "one too many")
    with pytest.raises(Full):
        library.share(ANNA, third)
    with pytest.raises(Full):
        library.add(BEN, "abc", kept, origin="imported", machine="", recorded="", name="a file")
    assert library.rename(ANNA, third, "") and [saved.name for saved in library.runs_of(BEN)] == []
    for _ in range(3):
        latest = add(library, kept, BEN)
    assert library.get(BEN, latest) and library.get(ANNA, first) and library.get(ANNA, second)
    library.close()


def test_names_are_cut_and_can_be_taken_away(library: Library, kept: list[tuple[Summary, bytes]]) -> None:
    run = add(library, kept)
    assert library.rename(ANNA, run, "  two\n words " + "x" * 200)
    named = library.get(ANNA, run)
    assert named and named.name and named.name.startswith("two words x") and len(named.name) == 80
    assert library.rename(ANNA, run, "   ")
    bare = library.get(ANNA, run)
    assert bare and bare.name is None


@pytest.mark.parametrize("place", ["SQLite", "PostgreSQL", None], indirect=True)
def test_eight_threads_save_list_share_and_delete_at_once(
    place: Path | str | None, kept: list[tuple[Summary, bytes]]
) -> None:
    library = Library(place)
    twin = Library(place) if place else library  # as another process would have it
    errors: list[BaseException] = []

    def work(name: str, mine: Library) -> None:
        try:
            for turn in range(5):
                run = add(mine, kept, name * 8)
                mine.rename(name * 8, run, f"turn {turn}")
                assert mine.trace(run, 1, name * 8) == kept[1][1]
                assert len(mine.runs_of(name * 8)) == turn + 1 - (turn > 2)
                if turn == 2:
                    assert mine.delete(name * 8, run)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"own{at}", (library, twin)[at % 2])) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    for at in range(8):
        assert [saved.name for saved in library.runs_of(f"own{at}" * 8)] == [
            "turn 4",
            "turn 3",
            "turn 1",
            "turn 0",
        ]
    assert library.size() == sum(library.size(f"own{at}" * 8) for at in range(8))
    twin.close()
    library.close()


def test_a_restart_keeps_runs_and_links(place: Path | str, kept: list[tuple[Summary, bytes]]) -> None:
    first = Library(place)
    run = add(first, kept)
    link = first.share(ANNA, run)
    before = first.runs_of(ANNA)
    first.close()
    again = Library(place)
    assert again.runs_of(ANNA) == before
    found = again.shared(link or "")
    assert found and found.id == run
    assert again.trace(link or "", 1, None) == kept[1][1]
    again.close()


# What version 1 of this program wrote, as it stood on disk: by hand, so that a changed migration is noticed.
VERSION_1 = """
PRAGMA application_id = 1397771330;
CREATE TABLE runs (
    id VARCHAR NOT NULL PRIMARY KEY, owner VARCHAR NOT NULL, created FLOAT NOT NULL, name VARCHAR,
    prompt VARCHAR NOT NULL, origin VARCHAR NOT NULL, machine VARCHAR NOT NULL, recorded VARCHAR NOT NULL,
    bytes INTEGER NOT NULL);
CREATE INDEX runs_of_owner ON runs (owner, created);
CREATE TABLE lanes (
    run VARCHAR NOT NULL, lane INTEGER NOT NULL,
    label VARCHAR NOT NULL, proposer VARCHAR NOT NULL, rule VARCHAR NOT NULL, lossy BOOLEAN NOT NULL,
    target VARCHAR NOT NULL, draft VARCHAR, tokens INTEGER NOT NULL, passes INTEGER NOT NULL,
    acceptance FLOAT, tokens_per_pass FLOAT, tokens_per_second FLOAT, speedup FLOAT, "end" VARCHAR NOT NULL,
    problem VARCHAR, trace BLOB NOT NULL, PRIMARY KEY (run, lane),
    FOREIGN KEY (run) REFERENCES runs (id) ON DELETE CASCADE);
PRAGMA user_version = 1;
"""
# And what versions 2 to 4 changed.
LATER = (
    "ALTER TABLE runs ADD COLUMN link VARCHAR; CREATE UNIQUE INDEX runs_by_link ON runs (link);",
    "ALTER TABLE runs ADD COLUMN request VARCHAR;",
    "CREATE TABLE course (owner VARCHAR NOT NULL PRIMARY KEY, progress VARCHAR NOT NULL);",
)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_an_older_version_is_brought_up_to_date(
    tmp_path: Path, kept: list[tuple[Summary, bytes]], version: int
) -> None:
    path = tmp_path / "old.sqlite3"
    packed = zlib.compress(kept[0][1])
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(VERSION_1)
        old.execute(
            "INSERT INTO runs VALUES ('oldrun', ?, 1e9, 'an old one', 'abc', 'measured', 'then', '2026', 7)",
            (sha256(ANNA.encode()).hexdigest(),),
        )
        old.execute(
            "INSERT INTO lanes VALUES ('oldrun', 0, 'Plain', 'none', 'speculative-sampling', 0, 'm', NULL, 24, 24,"
            " NULL, 1.0, 9.0, NULL, 'length', NULL, ?)",
            (packed,),
        )
        old.executescript("".join(LATER[: version - 1]) + f"PRAGMA user_version = {version};")
    library = Library(path)
    (saved,) = library.runs_of(ANNA)
    assert (saved.id, saved.name, saved.link, saved.lanes[0].tokens) == ("oldrun", "an old one", None, 24)
    assert library.trace("oldrun", 0, ANNA) == kept[0][1]
    assert library.shared(library.share(ANNA, "oldrun") or "") is not None
    library.close()
    with closing(sqlite3.connect(path)) as now:
        assert now.execute("PRAGMA user_version").fetchone() == (database.VERSION,)


def test_the_migrations_end_where_the_tables_are_declared(tmp_path: Path, place: Path | str) -> None:
    """The oracle is SQLAlchemy's own: tables made from the declarations at once."""
    migrated = Database(place)
    url = migrated._engine.url
    declared = create_engine(
        url.update_query_dict({"options": "-csearch_path=declared"})
        if migrated.shared
        else url.set(database=str(tmp_path / "declared.sqlite3"))
    )
    if migrated.shared:
        with declared.begin() as connection:
            connection.execute(CreateSchema("declared"))
    schema.metadata.create_all(declared)

    def shape(engine: Engine) -> object:
        seen = inspect(engine)
        return {
            name: (
                [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in seen.get_columns(name)
                ],
                seen.get_pk_constraint(name)["constrained_columns"],
                [
                    {**key, "referred_schema": None, "name": None}  # a schema of its own, below
                    for key in seen.get_foreign_keys(name)
                ],
                sorted(seen.get_indexes(name), key=lambda index: str(index["name"])),
            )
            for name in seen.get_table_names()
            if name != "alembic_version"
        }

    assert shape(migrated._engine) == shape(declared)
    migrated.close()
    declared.dispose()


def test_a_file_that_is_no_library_of_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, and nothing of SQLite's " * 40)
    foreign = tmp_path / "foreign.sqlite3"
    with closing(sqlite3.connect(foreign)) as other, other:
        other.execute("CREATE TABLE mine (x)")
    newer = tmp_path / "newer.sqlite3"
    with closing(sqlite3.connect(newer)) as other, other:
        other.executescript(VERSION_1 + "PRAGMA user_version = 99;")
    below = text / "library.sqlite3"
    for path, words in (
        (text, "not an SQLite database"),
        (foreign, "belongs to another program"),
        (newer, f"version 99 and this program reads up to {database.VERSION}"),
        (below, "its folder cannot be made"),
        (tmp_path, "cannot be opened for writing"),
    ):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(LibraryError, match=words) as caught:
            Library(path)
        assert "SPECDEC_LIBRARY" in str(caught.value) and str(caught.value).endswith(".")
        assert before is None or path.read_bytes() == before


def test_the_operator_says_where_the_library_is(tmp_path: Path) -> None:
    assert policy.read({"SPECDEC_LIBRARY": ""}).library is None
    assert policy.read({"SPECDEC_LIBRARY": f" {tmp_path}/runs.db "}).library == tmp_path / "runs.db"
    with pytest.raises(ValueError, match="SPECDEC_LIBRARY has to be a file"):
        policy.read({"SPECDEC_LIBRARY": str(tmp_path)})
    assert policy.read({}).library in (policy.LIBRARY, None)  # None where the checkout cannot be written


def test_an_installed_app_starts_for_a_user_without_a_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Catches: a traceback at the start, where no library can be kept in a home folder."""

    def nobody(*rest: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr(policy, "__file__", str(tmp_path / "specdec_lab" / "app" / "config.py"))
    assert policy._own_folder() == tmp_path / "specdec_lab" / "var"


def test_servers_that_start_at_once_make_the_tables_once(tmp_path: Path, postgresql: str) -> None:
    """Catches: the second of two servers that fails, or that finds half the tables, while the first one upgrades."""
    opened = "import sys; from app.records.database import Database; Database(sys.argv[1])"
    with postgres.database(postgresql, "at-once") as url:
        places = [url, f"sqlite:///{tmp_path}/new folder/library.sqlite3"] * 2
        started = [
            subprocess.Popen([sys.executable, "-c", opened, place], stdout=PIPE, stderr=PIPE, text=True)
            for place in places
        ]
        assert [process.communicate(timeout=120) for process in started] == [("", "")] * 4


def test_a_newer_postgresql_is_refused_and_left_alone(postgresql: str) -> None:
    with postgres.database(postgresql, "newer", template="empty") as url:
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(LibraryError, match="has version 9999 and this program reads up to"):
            Library(url)


def test_what_postgresql_cannot_store_is_replaced(
    library: Library, kept: list[tuple[Summary, bytes]]
) -> None:
    """Catches: a run that cannot be kept because somebody typed, or imported, the character 0."""
    run = add(library, kept, prompt="a\0b", name="\0")
    saved = library.get(ANNA, run)
    assert saved and (saved.prompt, saved.name) == ("a␀b", "␀")
    assert library.get(ANNA, "\0") is None and library.shared("\0") is None


def test_the_operator_names_a_database_by_its_url(tmp_path: Path, kept: list[tuple[Summary, bytes]]) -> None:
    """Catches: a URL that is taken for a file's name, and a password in the sentence about it."""
    url = f"sqlite:///{tmp_path}/named.sqlite3"
    operator = policy.read({"SPECDEC_DATABASE": url, "SPECDEC_LIBRARY": str(tmp_path / "other")})
    assert (operator.database, operator.library) == (url, None)
    library = Library(operator.database)
    run = add(library, kept)
    library.close()
    assert Library(tmp_path / "named.sqlite3").get(ANNA, run)
    with pytest.raises(ValueError, match="SPECDEC_DATABASE has to be a URL that begins with postgresql://"):
        policy.read({"SPECDEC_DATABASE": "mysql://somewhere"})
    assert Limits.within(50_000_000) == Limits(
        owner_bytes=50_000_000, all_bytes=50_000_000, pinned_bytes=40_000_000
    )
    assert Limits.within(policy.LIBRARY_BYTES) == Limits()
    nowhere = "postgresql://me:secret@127.0.0.1:1/lab"
    behind = "postgresql://127.0.0.1:1/lab?user=me&password=secret"
    with_a_slash = "postgresql://me:se@cr/secret@127.0.0.1:1/lab"
    for named, words in (
        (nowhere, "Connection refused[.]$"),
        (behind, "Connection refused[.]$"),
        (with_a_slash, "write @ as %40, / as %2F"),
        (url + "?mode=ro", "question mark"),
    ):
        with pytest.raises(LibraryError, match=words) as caught:
            Library(named)
        assert "SPECDEC_DATABASE" in str(caught.value) and "secret" not in str(caught.value)


def test_a_closed_library_is_all_in_its_file(tmp_path: Path, kept: list[tuple[Summary, bytes]]) -> None:
    """Catches: a copy of the file of a stopped server in which nothing is."""
    library = Library(tmp_path / "lab.sqlite3")
    run = add(library, kept)
    library.close()
    shutil.copy(tmp_path / "lab.sqlite3", tmp_path / "copy.sqlite3")
    assert Library(tmp_path / "copy.sqlite3").get(ANNA, run)
    assert Database("sqlite:///").place == "in memory"


def test_only_this_server_makes_owners_and_all_its_processes_share_the_secret(place: Path | str) -> None:
    """Catches: an owner whom somebody invented, and a visitor whom the next web process does not know."""
    database = Database(place)
    keys, twin = Keys(database), Keys(database)
    value = keys.sign(ANNA)
    assert value.startswith(ANNA + ".") and keys.owner(value) == twin.owner(value) == ANNA
    forged = (ANNA, BEN, ANNA + ".", BEN + value[len(ANNA) :], value[:-1], value + "x", value + "ä", ".", "")
    assert [keys.owner(other) for other in forged] == [None] * len(forged)
    assert Keys(database, "x" * 32).owner(value) is None
    assert not keys.is_old(ANNA)
    database.close()


def test_a_cookie_from_before_is_accepted_until_its_signed_one_comes_back(tmp_path: Path) -> None:
    """Catches: an upgrade that takes everybody's library away, and invented or planted owners ever after."""
    path = tmp_path / "old.sqlite3"
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(VERSION_1 + "".join(LATER) + "PRAGMA user_version = 4;")
        old.execute("INSERT INTO course VALUES (?, '{}')", (sha256(ANNA.encode()).hexdigest(),))
    database = Database(path)
    keys = Keys(database)

    def page(request: object) -> PlainTextResponse:
        return PlainTextResponse(str(visitor.named(request.cookies)))  # type: ignore[attr-defined]

    app = Starlette(routes=[Route("/", page)], middleware=[Middleware(visitor.OwnerCookie)])
    visitor.use(keys)
    try:
        for site, name in (("http://lab", visitor.COOKIE), ("https://lab", visitor.SECURE)):
            with TestClient(app, base_url=site) as client:

                def cookie(client: TestClient = client, **sent: str) -> str:
                    client.cookies.clear()
                    given = "; ".join(f"{key}={value}" for key, value in sent.items())
                    return client.get("/", headers={"accept": "text/html", "cookie": given}).headers[
                        "set-cookie"
                    ]

                assert cookie(specdec_owner=ANNA).startswith(f"{name}={keys.sign(ANNA)};")
                assert BEN not in cookie(specdec_owner=BEN), "invented"
        assert visitor.named({visitor.COOKIE: ANNA}) is None, "no page was requested with it yet"
        assert visitor.named({visitor.SECURE: keys.sign(BEN), visitor.COOKIE: keys.sign(ANNA)}) == BEN
        assert BEN not in cookie(specdec_owner=keys.sign(BEN)), "behind TLS, a neighbour may have set it"
        assert "; Secure" in cookie() and cookie().startswith("__Host-")
        assert cookie(**{name: keys.sign(ANNA)}).startswith(f"{name}={keys.sign(ANNA)};")
        assert ANNA not in cookie(specdec_owner=ANNA) and not Keys(database).is_old(ANNA)
        with TestClient(app, base_url="http://lab") as client:
            sent = {"accept": "text/html", "x-forwarded-proto": "https"}
            assert "; Secure" in client.get("/", headers=sent).headers["set-cookie"]
    finally:
        visitor.use(None)
        database.close()
