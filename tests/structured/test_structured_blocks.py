"""The structured support vector machine out of core: blocks of any size, its dual variables, memory, and resuming."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import N_LABELS, sequences

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.commands import info, structure
from blocksvm.store.chunks import Chunks
from blocksvm.structured import active, get_learner
from blocksvm.structured.example_blocks import ExampleBlock, Spooled, Whole
from blocksvm.structured.structured_checkpoint import StructuredCheckpoint
from blocksvm.structured.structured_run import fit_structure
from blocksvm.structured.structured_settings import RUN
from blocksvm.structured.task import training_of
from blocksvm.structured.templates import WITH_TAGS

LENGTHS = (2, 1, 3, 2, 1, 2, 3)
PLENTY = 2_000_000_000


class Drawn(Whole):
    """Blocks of so many chunks, whatever they cost; seen: what was visited."""

    def __init__(self, inner, run: int, most: int, folder: Path | None = None):
        super().__init__(inner, folder, run)
        self.most = most
        self.seen: list[list[int]] = []

    def partition(self, costs, room, seed, epoch):
        return super().partition(np.ones(len(costs)), self.most, seed, epoch)

    def block(self, chunks):
        self.seen.append(chunks.tolist())
        return super().block(chunks)


def machine_of(blocks, **own):
    found = get_learner("frank-wolfe")
    run = RUN.resolve({}, "structure")
    return found.make(blocks, found.settings.resolve(own, "frank-wolfe"), run, Budget(run["memory"]))


# ------------------------------------------------------------------------------------------------ the optimum


@pytest.mark.slow
@pytest.mark.parametrize(("run", "most", "inner_passes"), [(1, 1, 1), (2, 1, 4), (7, 1, 1), (3, 2, 1)])
def test_blocks_of_any_size_certify_the_same_optimum(tmp_path, run, most, inner_passes):
    inner, examples = sequences(11, LENGTHS)
    C = 0.4
    best = reference.structured_dual_optimum(examples, C)
    blocks = Drawn(inner, run, most, tmp_path)
    found = fit_structure(
        blocks, "frank-wolfe", {"C": C, "tol": 3e-3, "inner_passes": inner_passes}, {"epochs": 4000}
    )  # fmt: skip
    told = found.certificate
    assert max(map(len, blocks.seen)) == min(most, -(-len(LENGTHS) // run))
    assert told["rel_gap"] <= 3e-3
    assert told["dual"] <= best * (1 + 1e-7) and best <= told["primal"] * (1 + 1e-7)
    assert told["primal"] == pytest.approx(reference.hinge_primal(examples, found.weights, C), rel=1e-12)


def test_the_certificate_is_of_the_dual_variables_that_are_kept(tmp_path):
    """The dual's value by enumeration of the a_i(y) in the file is the one told, and so is w."""
    inner, examples = sequences(12, LENGTHS)
    blocks = Drawn(inner, 1, 2, tmp_path)
    machine = machine_of(blocks, C=0.7, inner_passes=2)
    machine.dual.memory = 0  # all in the file
    for epoch in range(4):
        for visit, chunks in enumerate(blocks.partition(np.ones(len(LENGTHS)), 0, 0, epoch)):
            machine.visit(blocks.block(chunks), epoch, visit, lambda: False)
    told = machine.certificate()
    assert machine.dual.file is not None
    w, lower = np.zeros(inner.n_weights), 0.0
    for i, e in enumerate(examples):
        (own,) = active.unpack(machine.dual.get(i))
        assert 0 < len(own) and min(own.values()) > 0.0 and sum(own.values()) <= 1.0 + 1e-12
        for output, share in own.items():
            y = e.outputs.index(tuple(np.frombuffer(output, np.int32).tolist()))
            w += 0.7 * share * (e.phi[e.gold] - e.phi[y])
            lower += 0.7 * share * e.rho[y]
    np.testing.assert_allclose(machine.w, w, rtol=0, atol=1e-13)
    assert told["dual"] == pytest.approx(lower - 0.5 * w @ w, rel=1e-12)
    assert told["primal"] == pytest.approx(reference.hinge_primal(examples, machine.weights(), 0.7), rel=1e-12)
    assert told["primal"] <= reference.hinge_primal(examples, w, 0.7) * (1 + 1e-12)


def test_one_block_is_the_machine_without_blocks():
    inner, _ = sequences(13, LENGTHS)
    given_ = {"C": 0.3, "tol": 0.0}
    plain = fit_structure(inner, "frank-wolfe", given_, {"epochs": 5})
    runs = fit_structure(Drawn(inner, 2, 9), "frank-wolfe", given_, {"epochs": 5})
    np.testing.assert_array_equal(plain.weights, runs.weights)
    assert plain.certificate == runs.certificate


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(0, 6))
def test_active_outputs_come_back(seed, n):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        own: dict = {}
        for _ in range(rng.integers(0, 5)):
            output = rng.integers(0, N_LABELS, rng.integers(1, 4)).astype(np.int32)
            active.move(own, float(rng.choice([0.25, 0.5, 1.0])), None if rng.random() < 0.2 else output)
        assert sum(own.values()) <= 1.0
        made.append(own)
    assert active.unpack(active.pack(made)) == made


# ------------------------------------------------------------------------------------------------ chunks and memory


def test_chunks_come_back_from_memory_and_file(tmp_path):
    rng = np.random.default_rng(0)
    chunks = Chunks(tmp_path, "own", 4000)
    wanted = {}
    for _ in range(60):
        number, n = int(rng.integers(0, 12)), int(rng.integers(0, 300))
        wanted[number] = {"a": rng.integers(0, 9, n).astype(np.int32), "b": rng.normal(size=n // 3)}
        chunks.put(number, wanted[number])
        assert chunks.held_bytes <= 4000
    assert chunks.file is not None and 0 < len(chunks.held) < 12
    for number, arrays in wanted.items():
        found = chunks.get(number)
        assert found.keys() == arrays.keys()
        for name in arrays:
            np.testing.assert_array_equal(found[name], arrays[name])
            assert found[name].dtype == arrays[name].dtype
    chunks.close()


def test_what_is_replaced_makes_place(tmp_path):
    chunks = Chunks(tmp_path, "own", 0)
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(30):
        for number in range(4):
            chunks.put(number, {"a": rng.integers(0, 2**60, 2000)})
        chunks.file.flush()
        chunks.file.sink.check()
        sizes.append(chunks.file.sink.partial.stat().st_size)
    assert sizes[-1] < 2 * sizes[0]
    chunks.close()


def text_of(n: int, seed: int = 5, longest: int = 20) -> str:
    """Sentences whose chunks follow from their tags but for a few words."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        before = "O"
        for tag in rng.choice(["DT", "NN", "VB", "IN"], rng.integers(2, longest)).tolist():
            word = f"{tag.lower()}{rng.integers(0, 9)}"
            noun = tag in ("DT", "NN") and word != "nn3"
            label = ("I-NP" if before != "O" and tag == "NN" else "B-NP") if noun else "O"
            lines.append(f"{word} {tag} {label}")
            before = label
        lines.append("")
    return "\n".join(lines) + "\n"


FEATURES = {"template": None, "min_count": 1}


@pytest.mark.parametrize("template", [None, f"y[-1]|w[0] {WITH_TAGS} y[-1]|t[0]|t[-1]"])
def test_parts_of_a_text_are_its_examples(tmp_path, template):
    """In a file or in memory: the same tables by the ids of features, whatever the parts."""
    text = tmp_path / "text"
    text.write_text(text_of(400).rstrip("\n"))
    features = FEATURES | {"template": template}
    whole = training_of("chunks", str(text), features, PLENTY)
    few = training_of("chunks", str(text), features, 1_000_000, tmp_path)
    assert isinstance(whole.blocks, Whole) and isinstance(few.blocks, Spooled)
    assert few.about == whole.about and few.blocks.n_weights == whole.blocks.n_weights
    assert len(few.blocks.counts) > 10 and few.blocks.n_examples == 400
    one, other = (t.blocks.block(np.arange(len(t.blocks.counts))).structure for t in (whole, few))
    np.testing.assert_array_equal(one.bounds, other.bounds)
    np.testing.assert_array_equal(one.answers, other.answers)
    plain = one.plain
    assert other.plain == plain and one.n_pairs == len(whole.pair_ids) == len(few.pair_ids) == other.n_pairs
    np.testing.assert_array_equal(whole.feature_ids[one.table[:, :plain]], few.feature_ids[other.table[:, :plain]])
    np.testing.assert_array_equal(whole.pair_ids[one.table[:, plain:]], few.pair_ids[other.table[:, plain:]])
    assert (one.table.shape[1] > plain) == (template is not None)
    part: ExampleBlock = few.blocks.block(np.array([2, 5]))
    assert part.structure.n_examples == few.blocks.counts[[2, 5]].sum() == part.bounds[-1]
    first = int(few.blocks.counts[:5].sum())
    np.testing.assert_array_equal(part.structure.gold(int(part.bounds[1])), one.gold(first))


@pytest.mark.slow
def test_memory_holds_for_a_text_several_times_as_large(tmp_path):
    memory = 1_500_000

    def run(n: int, steps: int):
        """The peak of training on n sentences, stopped after some steps."""
        (tmp_path / "text").write_text(text_of(n, longest=50))
        calls = iter(range(steps))
        tracemalloc.start()
        learned = training_of("chunks", str(tmp_path / "text"), FEATURES, memory, tmp_path)
        found = fit_structure(
            learned.blocks, "frank-wolfe", {"C": 0.1}, {"epochs": 9, "memory": memory},
            stop=lambda: next(calls, None) is None,
        )  # fmt: skip
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.interrupted and found.budget.left >= 0
        return learned.blocks, peak

    run(60, 20)  # what is imported and compiled is there
    blocks, peak = run(1700, 300)
    assert blocks.sizes.sum() > 2.5 * memory
    assert peak < memory


def test_memory_that_does_not_hold_a_chunk():
    inner, _ = sequences(14, LENGTHS)
    start = inner.n_bytes + 2 * 8 * inner.n_weights
    need = fit_structure(inner, "frank-wolfe", {}, {"epochs": 3}).budget
    with pytest.raises(InputError, match="the examples' parts of the weights .*raise memory"):
        fit_structure(inner, "frank-wolfe", {}, {"epochs": 3, "memory": start + 3000})
    # each chunk alone fits
    few = fit_structure(Whole(inner, run=1), "frank-wolfe", {}, {"epochs": 3, "memory": start + 3000}).budget
    assert sum(few.used.values()) <= start + 3000 < sum(need.used.values())


# ------------------------------------------------------------------------------------------------ resuming


@dataclass
class Killed(StructuredCheckpoint):
    """Ends the run, without a word, behind the save after so many visits (-1: never)."""

    after: int = -1
    visits: int = field(default=0)

    def due(self):
        return True

    def save(self, machine, progress):
        super().save(machine, progress)
        self.visits += 1
        if self.visits == self.after:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "own", "most"),
    [("frank-wolfe", {"C": 0.5, "inner_passes": 2}, 2), ("frank-wolfe", {"C": 0.5}, 9), ("mira", {"k": 2}, 2),
     ("perceptron", {}, 9)],
)  # fmt: skip
def test_killed_anywhere_and_resumed(tmp_path, learner, own, most):
    def run(resumed: bool, after: int, epochs: int = 3):
        inner, _ = sequences(15, LENGTHS)
        blocks = Drawn(inner, 2, most, tmp_path)
        saver = Killed(tmp_path / "run.ckpt", blocks, own, "text", resumed, after=after)
        return fit_structure(blocks, learner, own, {"epochs": epochs}, saver=saver), saver.visits

    inner, _ = sequences(15, LENGTHS)
    whole = fit_structure(Drawn(inner, 2, most, tmp_path), learner, own, {"epochs": 3})
    _, visits = run(False, -1)
    assert visits == (7 if most == 2 else 4)  # the last save is behind the last epoch
    for after in range(1, visits + 1):
        with pytest.raises(KeyboardInterrupt):
            run(False, after)
        found, more = run(True, -1)
        assert more == visits - after + (after == visits)
        np.testing.assert_array_equal(found.weights, whole.weights)
        assert found.certificate == whole.certificate
    # further than it was to go at first
    run(False, -1, epochs=1)
    np.testing.assert_array_equal(run(True, -1)[0].weights, whole.weights)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text(text_of(250))
    return path


WORDS = ["--task", "chunks", "--learner", "frank-wolfe", "-C", "0.1", "--tol", "0", "--memory", "700KB", "--quiet"]


@pytest.mark.slow
def test_the_command_resumes(text, tmp_path, run_in_process):
    from blocksvm.structured.structured_model import load_structured

    keep = ["--checkpoint", tmp_path / "run.ckpt", "--resume"]
    assert run_in_process(structure.main, "train", text, tmp_path / "a", *WORDS, "--epochs", 4).code == 0
    told = run_in_process(structure.main, "train", text, tmp_path / "b", *WORDS[:-1], "--epochs", 2, *keep)
    assert told.code == 0 and "no checkpoint yet; starting afresh" in told.err
    told = run_in_process(structure.main, "train", text, tmp_path / "c", *WORDS[:-1], "--epochs", 4, *keep)
    assert told.code == 0 and "4 epochs" in told.out and "certified" in told.out
    one, other = load_structured(tmp_path / "a"), load_structured(tmp_path / "c")
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.feature_ids, other.feature_ids)
    assert one.meta["certificate"] == other.meta["certificate"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "run.ckpt"]  # nothing is left behind
    told = run_in_process(info.main, tmp_path / "run.ckpt", "--verify")
    assert told.code == 0 and "4 epochs and 0 blocks" in told.out and "every checksum matches" in told.out
    assert run_in_process(info.main, tmp_path / "run.ckpt", "--json").code == 0
    figures = run_in_process(structure.main, "evaluate", tmp_path / "c", text, "--json").out
    assert '"F1": 0.9' in figures or '"F1": 1.0' in figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--resume"], "--resume needs --checkpoint FILE"),
        (["--checkpoint", "{ckpt}"], "exists already"),
        (["--checkpoint", "{text}", "--resume"], "is also an input"),
        (["--checkpoint", "{other}", "--resume"], "is not a blocksvm checkpoint of structure train"),
        (["--checkpoint", "{cut}", "--resume"], "damaged"),
        (["--checkpoint", "{ckpt}", "--resume", "-C", "0.2"], "its run was begun with -C 0.1, not 0.2"),
        (["--checkpoint", "{ckpt}", "--resume", "--memory", "900KB"], "its run was begun with --memory 700000, not"),
        (["--temp", "{other}"], "no such folder"),
        (["--inner-passes", "0"], "--inner-passes 0: must be from 1 to 1000"),
    ],
)
def test_what_cannot_be_resumed_is_one_sentence(text, tmp_path, run_in_process, more, sentence):
    names = {"text": text, "ckpt": tmp_path / "run.ckpt", "other": tmp_path / "other", "cut": tmp_path / "cut"}
    run_in_process(structure.main, "train", text, tmp_path / "a", *WORDS, "--epochs", 1,
                   "--checkpoint", names["ckpt"])  # fmt: skip
    names["other"].write_text("something else")
    data = bytearray(names["ckpt"].read_bytes())
    data[len(data) // 2] ^= 255
    names["cut"].write_bytes(data)
    told = run_in_process(structure.main, "train", text, tmp_path / "b", *WORDS, "--epochs", 2,
                          *(word.format(**names) for word in more))  # fmt: skip
    assert told.code == 2 and sentence in told.last_line
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_another_text_is_not_resumed(text, tmp_path, run_in_process):
    keep = ["--checkpoint", tmp_path / "run.ckpt"]
    assert run_in_process(structure.main, "train", text, tmp_path / "a", *WORDS, "--epochs", 1, *keep).code == 0
    (tmp_path / "other").write_text(text_of(50))
    told = run_in_process(structure.main, "train", tmp_path / "other", tmp_path / "b", *WORDS, *keep, "--resume")
    assert told.code == 2 and "belongs to a run on another text" in told.last_line
    told = run_in_process(structure.main, "train", "-", tmp_path / "b", *WORDS, "--checkpoint", tmp_path / "c")
    assert told.code == 2 and "needs a file to learn from" in told.last_line
