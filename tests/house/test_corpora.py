"""The corpora as svmlight text (tools/make_corpora.py), from tiny archives in the formats of the real ones."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.places import ROOT

TOOL = ROOT / "tools" / "make_corpora.py"
PC, MAC = "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"
FOUR_POSTS = {
    f"train/{PC}/1": "From: someone\nSubject: Re: blue lamp\nLines: 1\n\nThe lamp, the LAMP!\n\nblue-green 42\n",
    f"test/{PC}/2": "From: nobody\r\n\r\nlamp\r\n",
    f"train/{MAC}/1": "subject: red\n\nred door é red\n",
    f"test/{MAC}/2": "Organization: door makers\n\nred the\n",
    "train/sci.space/9": "Subject: not asked for\n\nmoon\n",
}


def write_archive(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            content = text.encode("latin-1")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def write_posts(path, posts):
    return write_archive(path, {f"20news-bydate-{name}": text for name, text in posts.items()})


def article(newid, topics, title="A title", body="a body", kind=""):
    content = f"<TITLE>{title}</TITLE>" + (f"<DATELINE>  NOWHERE - </DATELINE><BODY>{body}</BODY>" if body else "")
    names = "".join(f"<D>{topic}</D>" for topic in topics)
    return (
        f'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" OLDID="7" NEWID="{newid}">\n<TOPICS>{names}</TOPICS>\n'
        f"<PLACES><D>moon</D></PLACES>\n<TEXT{kind}>&#2;\n{content}&#3;</TEXT>\n</REUTERS>\n"
    )


def run_tool(*arguments):
    return subprocess.run([sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True)


def build(*arguments):
    """Run it, and give the rows and the description of each part by its name's ending."""
    done = run_tool(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    out = Path(arguments[2])
    return {
        path.stem.removeprefix(out.name): (
            path.read_text().splitlines(),
            json.loads(path.with_suffix(".json").read_text()),
        )
        for path in sorted(out.parent.glob(f"{out.name}*.svm"))
    }


def refused(*arguments):
    """The one sentence that it ends with, without having written anything."""
    before = set(Path(arguments[2]).parent.glob("*"))
    done = run_tool(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert set(Path(arguments[2]).parent.glob("*")) == before
    return done.stderr.splitlines()[-1].removeprefix("make_corpora.py: error: ")


@pytest.fixture
def reviews(tmp_path):
    files = {
        "books/negative.review": "dull:2 dull_plot:1 #label#:negative\nslow:3 a:b:4 #label#:negative\n",
        "books/positive.review": "plot:1 dull:1 dull:1 #label#:positive\n",
        "books/unlabeled.review": "fine:1 #label#:positive\nslow:1 #label#:negative\n",
        "dvd/negative.review": "noisy:1 #label#:negative\n",
    }
    return write_archive(tmp_path / "reviews.tar.xz", files, "w:xz")


@pytest.mark.process
def test_reviews(reviews, tmp_path):
    rows, about = build("books", reviews, tmp_path / "out")[""]
    # a:b 1, dull 2, dull_plot 3, plot 4, slow 5
    assert sorted(rows) == ["+1 2:2 4:1", "-1 1:4 5:3", "-1 2:2 3:1"]
    assert about == {
        "set": "books",
        "classes": {"-1": "negative", "+1": "positive"},
        "class_documents": {"-1": 2, "+1": 1},
        "documents": 3,
        "features": 5,
        "largest_id": 5,
        "nonzeros": 6,
        "average_nonzeros": 2.0,
        "values": "counts",
        "min_documents": 1,
        "seed": 0,
    }


@pytest.mark.process
def test_unlabeled_reviews(reviews, tmp_path):
    rows, _ = build("books", reviews, tmp_path / "out", "--unlabeled")[""]
    assert sorted(rows) == ["+1 1:1", "-1 2:1"]


@pytest.mark.process
def test_values(reviews, tmp_path):
    rows, about = build("books", reviews, tmp_path / "out", "--l2")[""]
    assert sorted(rows) == ["+1 2:0.894427191 4:0.447213595", "-1 1:0.8 5:0.6", "-1 2:0.894427191 3:0.447213595"]
    assert about["values"] == "counts, rows of length 1"
    rows, about = build("books", reviews, tmp_path / "out", "--binary")[""]
    assert sorted(rows) == ["+1 2:1 4:1", "-1 1:1 5:1", "-1 2:1 3:1"]
    assert about["values"] == "binary"
    rows, _ = build("books", reviews, tmp_path / "out", "--binary", "--l2")[""]
    assert sorted(rows)[0] == "+1 2:0.707106781 4:0.707106781"


@pytest.mark.process
def test_order_depends_on_names_and_seed_only(tmp_path):
    posts = {f"train/{group}/{i}": f"\n\n{'x ' * i}" for group in (PC, MAC) for i in range(1, 21)}
    there = write_posts(tmp_path / "there.tar.gz", posts)
    back = write_posts(tmp_path / "back.tar.gz", dict(reversed(posts.items())))
    options = ("--per-class", 20, "--min-documents", 1)
    rows, _ = build("ob-2-1", there, tmp_path / "out", *options)[""]
    again, _ = build("ob-2-1", back, tmp_path / "out", *options)[""]
    other, about = build("ob-2-1", there, tmp_path / "out", *options, "--seed", 1)[""]
    assert rows == again
    assert rows != other and sorted(rows) == sorted(other)
    assert rows != sorted(rows)
    assert about["seed"] == 1
    drawn, about = build("ob-2-1", there, tmp_path / "out", "--per-class", 5, "--min-documents", 1)[""]
    assert about["class_documents"] == {"-1": 5, "+1": 5}
    assert drawn == [row for row in rows if row in drawn]


@pytest.mark.process
def test_posts(tmp_path):
    archive = write_posts(tmp_path / "news.tar.gz", FOUR_POSTS)
    rows, about = build("ob-2-1", archive, tmp_path / "out", "--per-class", 2, "--min-documents", 1)[""]
    # blue 1, door 2, green 3, lamp 4, re 5, red 6, the 7
    assert sorted(rows) == ["+1 2:1 6:3", "+1 6:1 7:1", "-1 1:2 3:1 4:3 5:1 7:2", "-1 4:1"]
    assert about["classes"] == {"-1": PC, "+1": MAC}
    rows, about = build("ob-2-1", archive, tmp_path / "out", "--per-class", 2, "--min-documents", 2)[""]
    assert sorted(rows) == ["+1 2:1 3:1", "+1 2:3", "-1 1:1", "-1 1:3 3:2"]
    assert about["features"] == 3 and about["min_documents"] == 2


@pytest.mark.process
def test_all_newsgroups(tmp_path):
    sys.path.insert(0, str(TOOL.parent))
    try:
        from make_corpora import NEWSGROUPS
    finally:
        sys.path.remove(str(TOOL.parent))
    posts = {f"train/{group}/1": "Subject: zebra\n\nmiddle\n" for group in NEWSGROUPS}
    posts |= {f"test/{group}/1": "Subject: zebra\n\nabacus\n" for group in NEWSGROUPS}
    built = build("20news", write_posts(tmp_path / "news.tar.gz", posts), tmp_path / "out")
    rows, about = built["-train"]
    assert sorted(rows, key=lambda row: int(row.split()[0])) == [f"{label} 1:1 2:1" for label in range(20)]
    assert about["classes"]["0"] == "alt.atheism" and about["classes"]["19"] == "talk.religion.misc"
    rows, about = built["-test"]
    assert sorted(rows, key=lambda row: int(row.split()[0])) == [f"{label} 2:1 3:1" for label in range(20)]
    assert (about["documents"], about["features"], about["largest_id"]) == (20, 2, 3)
    del posts["test/sci.med/1"]
    archive = write_posts(tmp_path / "short.tar.gz", posts)
    assert (
        refused("20news", archive, tmp_path / "new")
        == f"{archive}: no test document of class sci.med for 20news is there"
    )


def write_articles(path, topics):
    articles = [article(i, [f"topic{i:02}"], "Nothing", "at all") for i in range(1, topics)]
    articles += [
        article(101, ["tin"], "Tin up &lt;TIN.X>", "tin &amp; more tin"),
        article(102, ["tin"], "More", "tin"),
        article(103, ["tin", "zinc"], "Two topics", "count for nothing"),
        article(104, [], "No topic", "counts for nothing"),
        article(105, ["tin"], "No body counts for nothing", "", ' TYPE="BRIEF"'),
    ]
    first, second = "".join(articles[:9]), "".join(articles[9:])
    head = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
    files = {"README.txt": "of no use", "reut2-000.sgm": head + first, "reut2-001.sgm": head + second}
    return write_archive(path, files, "w:xz")


@pytest.mark.process
def test_articles(tmp_path):
    rows, about = build("reut20", write_articles(tmp_path / "reuters.tar.xz", 22), tmp_path / "out")[""]
    assert about["classes"]["0"] == "tin"
    assert list(about["classes"].values())[1:] == [f"topic{i:02}" for i in range(1, 20)]
    assert (about["documents"], about["features"]) == (21, 7)
    # all 1, at 2, more 3, nothing 4, tin 5, up 6, x 7
    expected = ["0 3:1 5:4 6:1 7:1", "0 3:1 5:1"] + [f"{label} 1:1 2:1 4:1" for label in range(1, 20)]
    assert sorted(rows) == sorted(expected)


@pytest.mark.process
def test_too_few_topics(tmp_path):
    archive = write_articles(tmp_path / "reuters.tar.xz", 19)
    assert refused("reut20", archive, tmp_path / "out") == (
        f"{archive}: articles with one topic have 19 different topics, not at least 20"
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("dull:1", "does not end in #label#:negative or #label#:positive"),
        ("dull:1 #label#:neutral", "does not end in #label#:negative or #label#:positive"),
        ("dull #label#:negative", "holds 'dull', which is not a feature, a colon and a count"),
        ("dull:-1 #label#:negative", "holds 'dull:-1', which is not a feature, a colon and a count"),
        ("dull:0 #label#:negative", "holds 'dull:0', which is not a feature, a colon and a count"),
        (":1 #label#:negative", "holds ':1', which is not a feature, a colon and a count"),
    ],
)
def test_a_bad_review(line, problem, tmp_path):
    archive = write_archive(tmp_path / "bad.tar.gz", {"dvd/negative.review": f"fine:1 #label#:negative\n{line}\n"})
    assert refused("dvd", archive, tmp_path / "out") == f"{archive}: dvd/negative.review:2 {problem}"


@pytest.mark.process
def test_a_bad_article(tmp_path):
    text = article(1, ["tin"]).replace("NEWID", "ID")
    archive = write_archive(tmp_path / "bad.tar.gz", {"reut2-000.sgm": text.replace("OLDID", "OTHER")})
    assert refused("reut20", archive, tmp_path / "out") == (
        f"{archive}: reut2-000.sgm holds an article without NEWID or TOPICS"
    )


@pytest.mark.process
def test_bad_archives(reviews, tmp_path):
    out = tmp_path / "out"
    assert refused("books", tmp_path / "none.tar", out) == f"{tmp_path / 'none.tar'}: No such file or directory"
    text = tmp_path / "text.tar"
    text.write_text("not an archive\n" * 100)
    assert refused("books", text, out).startswith(f"{text} is not a whole tar archive: ")
    posts = write_posts(tmp_path / "whole.tar.gz", FOUR_POSTS)
    for whole in (reviews, posts):
        cut = tmp_path / f"cut-{whole.name}"
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        assert refused("books", cut, out).startswith(f"{cut} is not a whole tar archive: ")
    assert refused("dvd", reviews, out) == f"{reviews}: no document of class positive for dvd is there"
    assert refused("sb-2-1", reviews, out) == f"{reviews}: no document of class comp.windows.x for sb-2-1 is there"
    assert refused("ob-2-1", posts, out) == f"{posts}: {PC} has 2 documents, and --per-class asks for 500"


@pytest.mark.process
def test_bad_options(reviews, tmp_path):
    out = tmp_path / "out"
    assert refused("ob-2-1", reviews, out, "--unlabeled") == "--unlabeled is for books and dvd only"
    assert refused("20news", reviews, out, "--per-class", 3).startswith("--per-class is not for 20news")
    assert refused("books", reviews, out, "--min-documents", 0).endswith("'0' is not a whole number of at least 1")
    assert refused("books", reviews, tmp_path / "none" / "out").endswith("cannot write: No such file or directory")


@pytest.mark.process
def test_film_reviews_as_rows_and_as_documents(tmp_path):
    """tools/make_imdb.py: each document is the review of the row at its place, on one line."""
    names = [
        f"aclImdb/{part}/{side}_{k}.txt" for part in ("train", "test") for side in ("pos/1", "neg/2") for k in (2, 9)
    ]
    archive = write_archive(tmp_path / "a.tar.gz", {name: f"word{k}\tof\na film" for k, name in enumerate(names)})
    outputs = [tmp_path / name for name in ("train.svm", "test.svm", "both.svm", "both.tsv")]
    tool = TOOL.with_name("make_imdb.py")
    command = [
        sys.executable,
        tool,
        archive,
        *outputs[:2],
        "--both",
        outputs[2],
        "--documents",
        outputs[3],
        "--jobs",
        "1",
    ]
    subprocess.run(command, check=True, capture_output=True)
    train, test, both, documents = (path.read_text().splitlines() for path in outputs)
    assert train + test == both and len(documents) == 8
    assert [line.split(" ")[0] for line in both] == [line.split("\t")[0] for line in documents]
    assert sorted(line.split("\t")[1] for line in documents) == [f"word{k} of a film" for k in range(8)]
