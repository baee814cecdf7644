"""blocksvm structure: outputs with structure, trained on column text, predicted and evaluated."""

from dataclasses import replace

from blocksvm.base.errors import InputError
from blocksvm.base.settings import Setting, Settings
from blocksvm.cli.console import Interrupted, Parser, catch_signals, run, value_of
from blocksvm.cli.options import OVERWRITE, THREADS, UNCONVERGED, chosen_values, described, json_of, name_of_code
from blocksvm.cli.outputs import emit_json, outputs_of, print_results
from blocksvm.structured import TASKS, get_learner, get_task
from blocksvm.structured.settings import ALL_LEARNERS, FEATURES, OF_TASKS, RUN, SCORING

ACTIONS = {
    "train": "learn from a text whose outputs are known",
    "predict": "predict the outputs of a text",
    "evaluate": "compare the outputs of a model with those that a text has",
}
EXAMPLES = """examples:
  blocksvm structure train train.txt model.h5 --task chunks
  blocksvm structure predict model.h5 new.txt predicted.txt
  blocksvm structure evaluate model.h5 test.txt

Each action has its own --help.
"""
TASK_LINES = """tasks:
  tags        a label for each token; a line has a token, its columns and its
              label, an empty line ends a sentence
  chunks      the same, with labels of chunks (B-NP, I-NP, O), evaluated as by
              CoNLL-2000
  trees       the head of each token; the last column is the head's number, 0
              for the root
  words       the words of lines without blanks; training lines have blanks
              between the words, and with --tags are word/TAG word/TAG ...
  candidates  the best of a list of 'sentence ||| text ||| name=value ...', by
              --quality or --score
"""

TASK = Setting("task", "a task of the list below, or module:attribute", None, name_of_code, metavar="NAME")
LEARNER = Setting("learner", "perceptron, pa, pa1, pa2, mira (default), frank-wolfe", "mira", name_of_code,
                  metavar="NAME")  # fmt: skip
HELP_LEARNER = Setting("help_learner", "show the settings of a learner, and exit", None, name_of_code, metavar="NAME")


def train_parser(declared: Settings, of_task: Settings = Settings()) -> Parser:
    """of_task: the settings of a task from outside."""
    p = Parser("structure train", "Train a learner of outputs with structure, and write its model.", TASK_LINES)
    p.add_argument("text", metavar="TEXT", help="text to learn from, plain or compressed, - for standard input")
    p.add_argument("model", metavar="MODEL.h5", help="the model to write")
    p.add("the task", TASK, LEARNER, HELP_LEARNER, OVERWRITE)
    p.add("features", *FEATURES, defaults=False)
    p.add("candidates", *SCORING, defaults=False)
    p.add("the task's settings", *of_task, defaults=False)
    p.add("the learner's settings", *declared, defaults=False)
    p.add("the run", *RUN, defaults=False)
    return p


def model_parser(action: str) -> Parser:
    p = Parser(f"structure {action}", f"{ACTIONS[action].capitalize()}.")
    p.add_argument("model", metavar="MODEL.h5", help="a model of structure train")
    p.add_argument("text", metavar="TEXT", help="text as that of training, plain or compressed, - for standard input")
    if action == "predict":
        p.add_argument("output", metavar="OUTPUT", help="file for the predictions")
    else:
        p.add("what to write", json_of("the figures"))
    p.add("what to write", OVERWRITE)
    p.add("the task", replace(TASK, help="for a task of your own: MODULE:ATTRIBUTE as in training"))
    p.add("candidates", *SCORING, defaults=False)
    p.add("the machine", RUN["memory"], THREADS)
    return p


def parser() -> Parser:
    """The options of all actions, as a shell completes them."""
    p = train_parser(ALL_LEARNERS)
    p.add_argument("action", choices=tuple(ACTIONS))
    p.add("what to write", json_of("evaluate: the figures"))
    return p


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ACTIONS:
        p = Parser("structure", "Learn outputs with structure: labels of sequences, trees, words of lines.", EXAMPLES)
        p.add_argument("action", choices=tuple(ACTIONS), metavar="|".join(ACTIONS), help="what to do")
        p.parse_args(arguments)
    return {"train": train, "predict": predict, "evaluate": evaluate}[arguments[0]](arguments[1:])


def train(arguments: list[str]) -> int:
    if (name := value_of(arguments, "--help-learner")) is not None:
        learner = get_learner(name)
        print(described(name, learner.summary, learner.settings, [f"source: {learner.source}"]))
        return 0
    task, of_task = value_of(arguments, "--task"), Settings()
    if task is not None and task not in TASKS:  # it has settings of its own
        of_task = get_task(task).settings.without(*OF_TASKS.names())
    options = train_parser(ALL_LEARNERS, of_task).parse_args(arguments)
    if options.task is None:
        raise InputError("--task is missing: what is to be predicted; choose one of those that --help lists")
    from blocksvm.structured.tasks import learned_from, resolved, save_structured, structured_model

    groups = [chosen_values(options, declared) for declared in (ALL_LEARNERS, OF_TASKS + of_task, RUN)]
    settings, values, on = resolved(options.learner, options.task, *groups)
    output = outputs_of(options, [options.text], {"structure": options.model})["structure"]

    learned = learned_from(options.task, options.text, values, on["memory"])
    fitted = fit(options, settings, on, learned)
    if fitted.weights is None:
        raise Interrupted("interrupted; no model was written")
    model = structured_model(options.task, learned, options.learner, settings | values | on, fitted, options.text)
    save_structured(output, model, options.overwrite)
    above, lines = ended(fitted, settings.get("tol"))
    print_results(options, [*lines, f"model written to {output} ({output.stat().st_size / 1e6:.1f} MB)"])
    return UNCONVERGED if above and options.epochs is None else 0


def fit(options, settings: dict, on: dict, learned):
    from blocksvm.cli.texts import Line, megabytes
    from blocksvm.structured.tasks import fit_structure

    structure = learned.structure
    print(f"{options.text}: {structure.n_examples:,} examples, {len(learned.feature_ids):,} features, "
          f"{structure.n_weights:,} weights, {megabytes(structure.n_bytes)}", file=options.stderr)  # fmt: skip
    line = Line(options.stderr)

    def show(number, report, seconds) -> None:
        line.show(f"epoch {number}: {report.mistakes:,} of {report.examples:,} wrong, loss {report.loss:g}, "
                  f"{seconds:.1f}s")  # fmt: skip

    fitted = fit_structure(structure, options.learner, settings, on, show, catch_signals())
    line.close()
    return fitted


def ended(fitted, tol: float | None) -> tuple[bool, list[str]]:
    """(whether the last epoch left the certified gap above the tolerance, the training as lines for a person)."""
    epochs = "1 epoch" if fitted.epochs == 1 else f"{fitted.epochs} epochs"
    lines = [f"{epochs} in {fitted.seconds:.1f}s, memory {sum(fitted.budget.used.values()) / 1e6:,.0f} MB"]
    if fitted.certificate is None:
        return False, lines
    primal, dual, gap = (fitted.certificate[name] for name in ("primal", "dual", "rel_gap"))
    lines.append(f"certified: primal {primal:.10g}, dual {dual:.10g}, relative gap {gap:.3e}")
    if tol is None or gap <= tol:
        return False, lines
    return True, [f"not converged: the gap {gap:.1e} is above --tol {tol:g} after the last of {fitted.epochs} epochs; "
                  "raise --epochs, or accept the gap", *lines]  # fmt: skip


def opened(options, stop=lambda: False):
    """(the task of a model, the examples of a text, their predicted outputs)"""
    from blocksvm.structured.tasks import checked, opened_model, predicted

    model, task = opened_model(options.model, options.task)
    scoring = task.settings.checked(chosen_values(options, SCORING), f"the task {task.name}")
    examples = task.examples(model, options.text, options.memory, scoring)
    if examples.gold is None and "output" not in options:
        raise InputError(
            f"{options.text}: has no outputs to compare with; structure predict writes those of such a text"
        )
    structure = checked(examples.structure, model.meta.task)
    return task, examples, predicted(structure, model.weights, stop, options.threads)


def predict(arguments: list[str]) -> int:
    options = model_parser("predict").parse_args(arguments)
    from blocksvm.files.output import written_text

    output = outputs_of(options, [options.model, options.text], {None: options.output})[None]
    stop = catch_signals()
    task, examples, outputs = opened(options, stop)
    if stop():
        raise Interrupted("interrupted; nothing was written")
    with written_text(output, options.overwrite) as file:
        file.writelines(examples.lines(outputs))
    if examples.gold is None or not options.quiet:
        print(f"{len(outputs):,} predictions in {output}")
    if examples.gold is not None:
        show_figures(task.figures(examples, outputs))
    return 0


def evaluate(arguments: list[str]) -> int:
    options = model_parser("evaluate").parse_args(arguments)
    outputs_of(options, [options.model, options.text])
    task, examples, outputs = opened(options)
    figures = task.figures(examples, outputs)
    if not emit_json(options, figures):
        show_figures(figures)
    return 0


def show_figures(figures: dict) -> None:
    """Figures as lines; those of each type as a table."""
    for name, value in figures.items():
        if not isinstance(value, dict):
            print(f"{name:<10} {shown(value)}")
    for kind, measures in figures.get("types", {}).items():
        print(f"  {kind:<8} " + "  ".join(f"{name} {shown(value)}" for name, value in measures.items()))


def shown(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


if __name__ == "__main__":
    run(main)
