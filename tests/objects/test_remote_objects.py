"""Ranges of an object: the right bytes of one state of it, whatever the network does, and of those that are asked for
ahead whatever is wanted, within the memory; uploads that are whole."""

import os
import pickle
import random
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.object_server import Fault

from blocksvm.base.errors import InputError
from blocksvm.cli.options import files_named
from blocksvm.files import paths
from blocksvm.files.input import open_input
from blocksvm.files.output import JsonLines, written_whole
from blocksvm.files.paths import ObjectUrl, location, one_run
from blocksvm.files.remote import RemoteObject
from blocksvm.sources.source import ReadingCost
from blocksvm.store.remote_chunks import RemoteBytes

DATA = bytes(range(251)) * 1000
OTHERWISE = (
    "its server cannot be reached, or refuses the request ({}); check the URL, the connection, and the settings in the "
    "environment"
)


def refused(call, *given) -> str:
    """The sentence with which it refuses."""
    with pytest.raises(InputError) as refusal:
        call(*given)
    return str(refusal.value)


@pytest.fixture
def remote(server):
    server.objects.put("data", DATA)
    remote = RemoteObject(server.url("data"), 64)
    assert remote.identity().size == len(DATA)
    server.seen.clear()
    return remote


@pytest.mark.parametrize("what", ["503", "500", "429", "cut", "stall", "drop"])
def test_a_request_that_fails_is_made_again(server, remote, what):
    server.faults.append(Fault(what, times=2))
    assert bytes(remote.read(1000, 200_000)) == DATA[1000:200_000]
    assert len(server.seen) == 3
    assert {method for method, *_ in server.seen} == {"GET"}


@pytest.mark.parametrize(
    ("what", "said", "at_once"),
    [("503", "status 503", False), ("drop", "", False), ("other", "Requested 0..10, got 1..11", True),
     ("short", "", True), ("400", "(status 400)", True), ("401", "denied", True), ("403", "denied", True)],
)  # fmt: skip
def test_a_request_that_never_passes_is_told(server, remote, what, said, at_once):
    server.faults.append(Fault(what, times=99))
    told, sentence = refused(remote.read, 0, 10), OTHERWISE
    if said == "denied":
        sentence = f"access is denied ({what}); give credentials in the environment, or a URL that is signed{{}}"
    begin, end = sentence.split("{}")
    assert told.startswith(f"{remote.url}: {begin}") and told.endswith(end) and said in told
    assert (len(server.seen) == 1) == at_once


def test_every_answer_is_of_one_state(server, remote):
    """Also where a server does not look at what is demanded, or has no ETags."""
    assert bytes(remote.read(5, 9)) == DATA[5:9]
    assert {demanded for *_, demanded in server.seen} == {server.objects.etag("data")}
    server.objects.put("data", DATA)
    sentence = f"{remote.url}: was replaced or changed while this run was reading it; run it again"
    for start in (0, len(DATA) - 5):
        assert refused(remote.read, start, start + 5) == sentence
    server.etags = False
    remote = RemoteObject(server.url("data"), 64)
    remote.identity()
    server.objects.put("data", DATA + b"!")
    assert refused(remote.read, 0, 5) == sentence
    assert server.seen[-1][-1] is None


def test_objects_that_are_not_there_or_not_given_in_parts(server):
    assert not location(server.url("none")).exists()
    with pytest.raises(FileNotFoundError, match="no such object"):
        location(server.url("none")).stat()
    server.ranges = False
    server.objects.put("data", DATA)
    with pytest.raises(InputError, match="refuses the request .*Range request not supported"):
        location(server.url("data")).stat()


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
    with open_input(location(server.url("empty"))) as file:
        assert file.read() == b""
    assert location(server.url("empty")).stat().st_size == 0
    # a run asks once
    server.seen.clear()
    path = location(server.url("long"))
    with one_run():
        for _ in range(3):
            assert path.exists()
            with open_input(path) as file:
                assert file.read(100) == data[:100]
    assert len(server.seen) == 1


def test_a_path_of_an_object():
    path = location("s3://bucket/folder/data.h5")
    assert isinstance(path, ObjectUrl)
    names = {f"{path}", str(path.absolute()), str(path.resolve()), paths.absolute_name(path)}
    assert names == {"s3://bucket/folder/data.h5"}
    assert (path.name, path.suffix) == ("data.h5", ".h5")
    assert location(str(path)) == path == location(path)
    assert not isinstance(location("folder/data.h5"), ObjectUrl)
    assert str(location("file:///data/x.h5")) == "/data/x.h5"
    with pytest.raises(InputError, match="names another machine"):
        location("file://host/x.h5")


@pytest.mark.parametrize("key", ["a%20b.svm", "a b.svm", "run#1.h5", "run?x.h5", "d/100%25+ü*[1].h5"])
def test_a_key_is_taken_character_by_character(server, key):
    path = location(f"s3://bucket/{key}")
    assert str(path) == str(pickle.loads(pickle.dumps(path))) == f"s3://bucket/{key}"
    assert paths.arguments_without_secrets([str(path)]) == [str(path)]
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
        assert location(server.url(url)).stat().st_size == len(DATA)
    assert [seen[1] for seen in server.seen][2:] == ["/a%20b.svm?signature=x", "/a%20b.svm", "/d//e.svm"]


@pytest.mark.parametrize("key", ["d//e.svm", "/e.svm", "d/", "d/../e.svm", "./e.svm", "a\tb", "a/b\x7f/c"])
def test_a_key_that_obstore_cannot_name_is_refused(server, key):
    with pytest.raises(InputError, match="obstore cannot name a key with a part .* give the object another key"):
        location(f"s3://bucket/{key}").exists()
    assert not server.seen


def test_a_bucket_and_a_pattern_are_not_objects(server):
    for url in ("s3://bucket", "s3://bucket/", server.url("")):
        names = f"{url}: names no object; give one with its key, as {url.rstrip('/')}/rows.svm"
        assert refused(location(url).exists) == names
    with pytest.raises(InputError, match=r"^s3://bucket/\*.svm: no such object; patterns are for files of this"):
        files_named(["s3://bucket/*.svm"])


def test_why_a_server_cannot_be_reached_is_told(server, monkeypatch):
    def refusal() -> str:
        return refused(location("s3://bucket/rows.svm").exists)

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert refusal() == f"s3://bucket/rows.svm: {OTHERWISE.format('Connection refused')}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.removeprefix("http://"))
    assert refusal().startswith("AWS_ENDPOINT_URL=127.0.0.1:") and refusal().endswith("with http:// or https://")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "its server cannot be reached, or refuses the request (its endpoint has no TLS" in refusal()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://no.such.invalid")
    assert "Name or service not known" in refusal() or "name resolution" in refusal()
    assert not server.seen


def test_secrets_of_a_url_are_not_in_its_name():
    url = "https://me:word@host/a/b.h5?signature=xyz#part"
    assert str(location(url)) == paths.without_secrets(url) == "https://host/a/b.h5"
    assert location(url).name == "b.h5"
    assert paths.with_secrets("https://host/a/b.h5") == url
    named = "abfss://container@account.dfs.core.windows.net/x"
    assert paths.without_secrets(named) == named
    words = ["-C", "1", "https://host/b.h5?x=1", "--log=https://host/l?x=2", "https://host/b.h5?x=1", "a?b"]
    assert paths.arguments_without_secrets(words) == [
        "-C", "1", "https://host/b.h5", "--log=https://host/l", "https://host/b.h5", "a?b",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"^https://host/b.h5: is given twice with different queries"):
        paths.arguments_without_secrets(["https://host/b.h5?x=1", "https://host/b.h5?x=2"])


@pytest.mark.parametrize("size", [0, 1000, 20_000_000])
def test_an_output_is_an_object_when_it_is_whole(server, size):
    data = (b"0123456789" * (size // 10 + 1))[:size]
    path = location("s3://bucket/out.bin")
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
    server.faults.append(Fault("403", at=1, times=99))
    with pytest.raises(InputError, match="access is denied"), written_whole(path) as file:
        file.write(b"data")


def test_a_log_grows_and_never_ends_the_run(server):
    """It is uploaded now and then, goes on where it was, and where it cannot be uploaded that is told once."""
    path, told = location("s3://bucket/log.jsonl"), []
    for going_on in (False, True):
        lines = JsonLines(path, told.append, overwrite=False, going_on=going_on)
        lines.due = 0.0  # it is time for the next upload
        lines.write({"event": 1})
        assert server.objects.data["bucket/log.jsonl"].count(b"\n") >= 1
        lines.write({"event": 2})
        lines.close()
    assert server.objects.data["bucket/log.jsonl"] == b'{"event": 1}\n{"event": 2}\n' * 2
    with pytest.raises(InputError, match="was made by another run meanwhile"):
        JsonLines(path, told.append, overwrite=False)
    assert told == []
    lines = JsonLines(path, told.append, overwrite=True)
    lines.write({"event": 3})
    server.faults.append(Fault("403", times=99))
    lines.due = 0.0
    lines.write({"event": 4})
    lines.write({"event": 5})
    lines.close()
    assert len(told) == 1
    assert told[0].startswith("s3://bucket/log.jsonl: ") and told[0].endswith("the log ends here, the run goes on")


CHUNKS = bytes(range(256)) * 4000
SIZE, N = 5_000, 200  # of chunks, each of two spans far from each other


def spans_of(chunk: int) -> list[tuple[int, int]]:
    return [(SIZE * chunk, SIZE * chunk + SIZE - 100), (SIZE * chunk + SIZE - 100, SIZE * (chunk + 1))]


def read_block(source: RemoteBytes, chunks: list[int]) -> None:
    for run in source.runs(chunks, 1):
        run.begin(ReadingCost())
        for chunk in run.chunks:
            first, second = spans_of(chunk)
            found = [run.read(start, memoryview(bytes(stop - start))) for start, stop in (first, second)]
            assert b"".join(found) == CHUNKS[first[0] : second[1]]
        run.end()


def state_of(source: RemoteBytes) -> tuple[int, int]:
    """Bytes reserved, and runs that wait."""
    with source.changed:
        return source.reserved, len(source.queue)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 12_000, 10**6])
@pytest.mark.parametrize(("seed", "connections"), list(enumerate([1, 2, 2, 64])))
def test_whatever_is_foreseen_what_is_wanted_comes(server, budget, seed, connections):
    """Also where many requests fail, and fewer are under way from then on."""
    server.objects.put("data", CHUNKS)
    source = RemoteBytes(RemoteObject(server.url("data"), connections), spans_of, budget, longest=12_000)
    draw = random.Random(seed)
    server.faults += [Fault(draw.choice(("503", "drop", "cut")), at=draw.randint(1, 400)) for _ in range(40)]

    def block() -> list[int]:
        some, first = draw.sample(range(N), draw.randint(1, 6)), draw.randrange(90)
        return some if draw.random() < 0.7 else list(range(first, first + 9))

    def work() -> None:
        order = [block() for _ in range(40)]
        order += order[:10]  # the same again
        while order:
            # what is wanted is what was foreseen, or something else, or that in another order
            chunks = order.pop(0)
            ahead = order[: draw.randint(0, 6)]
            draw.shuffle(ahead) if draw.random() < 0.3 else None
            source.foresee([chunks, *ahead] if draw.random() < 0.8 else ahead)
            read_block(source, chunks)
            assert state_of(source)[0] <= max(budget, 2 * 12_000 + SIZE)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(60)
    source.close()
    assert state_of(source) == (0, 0)


def test_a_block_that_is_given_up_frees_its_memory(server):
    server.objects.put("data", CHUNKS)
    source = RemoteBytes(RemoteObject(server.url("data"), 64), spans_of, budget=20_000, longest=6_000)
    source.foresee([[1, 5, 9], [2, 6], [3]])
    run, *_ = source.runs([1, 5, 9], 1)
    run.begin(ReadingCost())
    run.end()  # the others are never taken
    read_block(source, [2, 6])
    read_block(source, [7])
    source.close()
    assert state_of(source) == (0, 0)


@pytest.mark.parametrize("connections", [1, 3, 20])
def test_the_limit_of_requests_holds(server, connections):
    """Whatever waits for memory meanwhile."""
    server.objects.put("data", CHUNKS)
    server.latency = 0.005
    source = RemoteBytes(RemoteObject(server.url("data"), connections), spans_of, budget=30_000, longest=6_000)
    order = [list(range(first, first + 20)) for first in range(0, N, 20)]
    for k, chunks in enumerate(order):
        source.foresee(order[k : k + 4])
        read_block(source, chunks)
    assert min(connections, 3) <= server.most <= connections
    source.close()


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a server of moto's own, which speaks S3's dialect; of the extra test-cloud, `nox -s cloud`."""
    moto, boto3 = pytest.importorskip("moto.server"), pytest.importorskip("boto3")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    names = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "tester",
             "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=names["AWS_ENDPOINT_URL"], region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield "s3://bucket"
    running.stop()


@pytest.mark.parametrize("size", [0, 1000, 20_000_000])
def test_objects_of_moto_are_written_and_read(bucket, size):
    data, path = bytes(range(250)) * (size // 250), location(f"{bucket}/out-{size}")
    assert not path.exists()
    with written_whole(path, overwrite=False) as file:
        file.write(data)
    assert path.stat().st_size == size
    with pytest.raises(InputError, match="was made by another run"), written_whole(path, overwrite=False):
        pass
    if size:
        remote = RemoteObject(path.url)
        assert bytes(remote.read(17, 900)) == data[17:900]
        with written_whole(path) as file:
            file.write(b"!" + data[1:])
        with pytest.raises(InputError, match="was replaced or changed while"):
            remote.read(17, 900)
    path.unlink()
    assert not path.exists()
    assert not location("s3://other/rows.svm").exists()  # whose bucket is missing
