"""Ranges of an object: the right bytes of one state of it, whatever the network does; uploads that are whole."""

import os
import pickle
import socket

import pytest
from support.object_server import Fault

from blocksvm.base.errors import InputError
from blocksvm.base.inputs import open_input
from blocksvm.base.json_lines import JsonLines
from blocksvm.base.objects import remote_object
from blocksvm.base.objects.remote_object import RemoteObject
from blocksvm.base.objects.remote_path import RemotePath, absolute_name, objects_met_once, place
from blocksvm.base.objects.urls import arguments_without_secrets, with_secrets, without_secrets
from blocksvm.base.outputs.writing import open_text, written_whole
from blocksvm.cli.options import files_named

DATA = bytes(range(251)) * 1000


@pytest.fixture
def remote(server):
    server.objects.put("data", DATA)
    remote = RemoteObject(server.url("data"))
    assert remote.identity().size == len(DATA)
    server.seen.clear()
    return remote


@pytest.mark.parametrize("what", ["503", "500", "429", "cut", "stall", "drop", "short", "other"])
def test_a_request_that_fails_is_made_again(server, remote, what):
    server.faults.append(Fault(what, times=2))
    assert bytes(remote.read(1000, 200_000)) == DATA[1000:200_000]
    assert len(server.seen) == 3
    assert {(method, span) for method, _, span, _ in server.seen} == {("GET", "bytes=1000-199999")}
    assert (remote.requests, remote.connections.under_way) == (4, 0)


@pytest.mark.parametrize("what", ["503", "drop", "other"])
def test_a_request_that_never_passes_is_told(server, remote, what):
    server.faults.append(Fault(what, times=99))
    with pytest.raises(InputError, match=f"^{remote.url}: 6 requests for the same bytes have failed, the last one"):
        remote.read(0, 10)
    assert remote.connections.under_way == 0


def test_every_answer_is_of_one_state(server, remote):
    """Also where a server does not look at what is demanded, or has no ETags."""
    assert bytes(remote.read(5, 9)) == DATA[5:9]
    assert {demanded for *_, demanded in server.seen} == {server.objects.etag("data")}
    server.objects.put("data", DATA)
    sentence = f"{remote.url}: was replaced or changed while this run was reading it; run it again"
    for start in (0, len(DATA) - 5):
        with pytest.raises(InputError) as refusal:
            remote.read(start, start + 5)
        assert str(refusal.value) == sentence
    server.etags = False
    remote = RemoteObject(server.url("data"))
    remote.identity()
    server.objects.put("data", DATA + b"!")
    with pytest.raises(InputError) as refusal:
        remote.read(0, 5)
    assert str(refusal.value) == sentence
    assert server.seen[-1][-1] is None
    server.objects.put("data", DATA[:7])  # shorter than where a range begins
    remote = RemoteObject(server.url("data"))
    remote.state = remote_object.Identity(len(DATA), "", "")
    with pytest.raises(InputError) as refusal:
        remote.read(100, 105)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("status", "sentence"),
    [("403", "access is denied (403); give credentials in the environment, or a URL that is signed"),
     ("401", "access is denied (401); give credentials in the environment, or a URL that is signed"),
     ("400", "its server refuses the request (status 400); check the URL")],
)  # fmt: skip
def test_what_does_not_pass_is_told_at_once(server, status, sentence):
    server.objects.put("data", DATA)
    server.faults.append(Fault(status, times=99))
    with pytest.raises(InputError) as refusal:
        RemoteObject(server.url("data")).identity()
    assert str(refusal.value) == f"{server.url('data')}: {sentence}"
    assert len(server.seen) == 1


def test_objects_that_are_not_there_or_not_given_in_parts(server):
    assert not place(server.url("none")).exists()
    with pytest.raises(FileNotFoundError, match="no such object"):
        place(server.url("none")).stat()
    server.ranges = False
    server.objects.put("data", DATA)
    with pytest.raises(InputError, match="its server gives no parts of an object; copy it to a disk"):
        place(server.url("data")).stat()


def test_an_object_is_read_as_a_file(server):
    """From its beginning to its end, with requests that go ahead; an empty one too."""
    data = bytes(range(256)) * 80_000
    server.objects.put("long", data)
    server.objects.put("empty", b"")
    with open_input(server.url("long")) as file:
        assert file.read() == data
        assert len(server.seen) < 9
        file.seek(-5, 2)
        assert file.read() == data[-5:]
    with open_input(place(server.url("empty"))) as file:
        assert file.read() == b""
    assert place(server.url("empty")).stat().st_size == 0


def test_a_run_asks_once(server):
    server.objects.put("data", DATA)
    path = place(server.url("data"))
    with objects_met_once():
        for _ in range(3):
            assert path.exists()
            with open_input(path) as file:
                assert file.read(100) == DATA[:100]
    assert len(server.seen) == 1


def test_a_path_of_an_object():
    path = place("s3://bucket/folder/data.h5")
    assert isinstance(path, RemotePath)
    assert (
        f"{path}" == str(path.absolute()) == str(path.resolve()) == absolute_name(path) == "s3://bucket/folder/data.h5"
    )
    assert (path.name, path.suffix) == ("data.h5", ".h5")
    assert str(path.with_name("other")) == "s3://bucket/folder/other"
    assert place(str(path)) == path == place(path)
    assert not isinstance(place("folder/data.h5"), RemotePath)
    assert str(place("file:///data/x.h5")) == "/data/x.h5"
    with pytest.raises(InputError, match="names another machine"):
        place("file://host/x.h5")


@pytest.mark.parametrize("key", ["a%20b.svm", "a b.svm", "run#1.h5", "run?x.h5", "d/100%25+ü*[1].h5"])
def test_a_key_is_taken_character_by_character(server, key):
    path = place(f"s3://bucket/{key}")
    assert str(path) == str(pickle.loads(pickle.dumps(path))) == f"s3://bucket/{key}"
    assert arguments_without_secrets([str(path)]) == [str(path)]
    with written_whole(path, overwrite=False) as file:
        file.write(b"rows")
    assert list(server.objects.data) == [f"bucket/{key}"]
    assert files_named([str(path)]) == [str(path)]
    with open_input(path) as file:
        assert file.read() == b"rows"
    path.unlink()
    assert not server.objects.data


def test_a_url_of_the_web_goes_by_its_rules(server):
    """Percent-encoding is undone, a query goes to the server, a fragment to nobody; '//' is no '/'."""
    for name in ("a b.svm", "d//e.svm"):
        server.objects.put(name, DATA)
    for url in ("a%20b.svm", "a b.svm", "a%20b.svm?signature=x", "a%20b.svm#part", "d//e.svm"):
        assert place(server.url(url)).stat().st_size == len(DATA)
    assert [seen[1] for seen in server.seen][2:] == ["/a%20b.svm?signature=x", "/a%20b.svm", "/d//e.svm"]


@pytest.mark.parametrize("key", ["d//e.svm", "/e.svm", "d/", "d/../e.svm", "./e.svm", "a\tb", "a/b\x7f/c"])
def test_a_key_that_obstore_cannot_name_is_refused(server, key):
    with pytest.raises(InputError, match="obstore cannot name a key with a part .* give the object another key"):
        place(f"s3://bucket/{key}").exists()
    assert not server.seen


def test_a_bucket_and_a_pattern_are_not_objects(server):
    for url in ("s3://bucket", "s3://bucket/", server.url("")):
        with pytest.raises(InputError) as refusal:
            place(url).exists()
        assert str(refusal.value) == f"{url}: names no object; give one with its key, as {url.rstrip('/')}/rows.svm"
    with pytest.raises(InputError, match=r"^s3://bucket/\*.svm: no such object; patterns are for files of this"):
        files_named(["s3://bucket/*.svm"])


def test_what_no_further_request_would_mend_is_told_at_once(server, monkeypatch):
    def refusal() -> str:
        with pytest.raises(InputError) as told:
            place("s3://bucket/rows.svm").exists()
        return str(told.value)

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert refusal() == (
        "s3://bucket/rows.svm: its endpoint has no TLS; give one that begins with https://, or allow that "
        "(AWS_ALLOW_HTTP=true)"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.replace("http:", "https:"))
    assert refusal().endswith("its endpoint has no TLS; give it with http://, and AWS_ALLOW_HTTP=true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.removeprefix("http://"))
    assert refusal().startswith("AWS_ENDPOINT_URL=127.0.0.1:") and refusal().endswith(
        "give it with http:// or https://"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://no.such.invalid")
    assert "no machine has the name of its server" in refusal() or "name resolution" in refusal()
    assert not server.seen


def test_why_a_server_could_not_be_reached_is_told(server, monkeypatch):
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(InputError, match="6 requests .* the last one with: Connection refused; look after the"):
            place("s3://bucket/rows.svm").exists()


def test_secrets_of_a_url_are_not_in_its_name():
    url = "https://me:word@host/a/b.h5?signature=xyz#part"
    assert str(place(url)) == without_secrets(url) == "https://host/a/b.h5"
    assert place(url).name == "b.h5" and place(url).parts[-2:] == ("a", "b.h5")
    assert with_secrets("https://host/a/b.h5") == url
    assert without_secrets("abfss://container@account.dfs.core.windows.net/x") == (
        "abfss://container@account.dfs.core.windows.net/x"
    )
    words = ["-C", "1", "https://host/b.h5?x=1", "--log=https://host/l?x=2", "https://host/b.h5?x=1", "a?b"]
    assert arguments_without_secrets(words) == [
        "-C", "1", "https://host/b.h5", "--log=https://host/l", "https://host/b.h5", "a?b",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"^https://host/b.h5: is given twice with different queries"):
        arguments_without_secrets(["https://host/b.h5?x=1", "https://host/b.h5?x=2"])


@pytest.mark.parametrize("size", [0, 1000, 20_000_000])
def test_an_output_is_an_object_when_it_is_whole(server, size):
    data = (b"0123456789" * (size // 10 + 1))[:size]
    path = place("s3://bucket/out.bin")
    with pytest.raises(ZeroDivisionError), written_whole(path) as file:
        file.write(data[: 1 // 0])
    assert not path.exists()
    server.seen.clear()
    with written_whole(path, overwrite=False) as file:
        file.write(data)
        assert not any(method in ("PUT", "POST") for method, *_ in server.seen)
    assert server.objects.data["bucket/out.bin"] == data
    assert not server.objects.uploads
    assert ("POST" in {method for method, *_ in server.seen}) == (size > 10_000_000)  # in parts
    with pytest.raises(InputError, match="was made by another run meanwhile"), written_whole(path, overwrite=False):
        pass
    with written_whole(path) as file:
        file.write(b"other")
    assert server.objects.data["bucket/out.bin"] == b"other"
    path.unlink()
    assert not path.exists()


def test_an_upload_that_fails_is_told(server):
    path = place("s3://bucket/out.bin")
    server.faults.append(Fault("403", at=1, times=99))
    with pytest.raises(InputError, match="access is denied"), written_whole(path) as file:
        file.write(b"data")


def test_a_log_grows_and_never_ends_the_run(server):
    """It is uploaded now and then, goes on where it was, and where it cannot be uploaded that is told once."""
    path, told = place("s3://bucket/log.jsonl"), []
    for going_on in (False, True):
        lines = JsonLines(path, open_text(path, overwrite=False, going_on=going_on), told.append)
        lines.file.due = 0.0  # it is time for the next upload
        lines.write({"event": 1})
        assert server.objects.data["bucket/log.jsonl"].count(b"\n") >= 1
        lines.write({"event": 2})
        lines.close()
    assert server.objects.data["bucket/log.jsonl"] == b'{"event": 1}\n{"event": 2}\n' * 2
    with pytest.raises(InputError, match="was made by another run meanwhile"):
        open_text(path, overwrite=False)
    assert told == []
    lines = JsonLines(path, open_text(path, overwrite=True), told.append)
    lines.write({"event": 3})
    server.faults.append(Fault("403", times=99))
    lines.file.due = 0.0
    lines.write({"event": 4})
    lines.write({"event": 5})
    lines.close()
    assert len(told) == 1
    assert told[0].startswith("s3://bucket/log.jsonl: ") and told[0].endswith("the log ends here, the run goes on")
