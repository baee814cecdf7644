"""S3's dialect as moto speaks it: ranges, ETags, uploads in parts; of the extra test-cloud, `nox -s cloud`."""

import pytest

from blocksvm.base.errors import InputError
from blocksvm.files.output import written_whole
from blocksvm.files.paths import location
from blocksvm.files.remote import RemoteObject

server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a server of moto's own."""
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
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
def test_objects_are_written_and_read(bucket, size):
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


def test_a_bucket_that_is_missing_has_no_objects(bucket):
    assert not location("s3://other/rows.svm").exists()
