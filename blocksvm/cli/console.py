"""The parser that commands share, exit codes, errors as one line, signals, and the standard streams as commands use
them: closed ones are replaced, progress that nobody can read is dropped.  Imports nothing heavy."""

import argparse
import contextlib
import gc
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from blocksvm import __version__
from blocksvm.base import errors
from blocksvm.base.log import show_with
from blocksvm.base.memory import BESIDES, MEMORY, megabytes, memory_limit
from blocksvm.base.settings import Setting
from blocksvm.base.user_code import by_user, no_user_locations
from blocksvm.cli.foreign_options import FOREIGN_OPTIONS
from blocksvm.files.paths import arguments_without_secrets, one_run

USUAL = gc.get_threshold()
NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)")  # a value that begins so is not an option
QUIET = Setting("quiet", "print one line or the table asked for, and errors", False, bool)


class Parser(argparse.ArgumentParser):
    """An argument parser whose options are settings, and whose errors are one line.  A value may be a negative number
    (``--labels -1,1``), and an unknown option is answered with the one that may have been meant."""

    def __init__(self, module: str, description: str, epilog: str | None = None):
        how = argparse.RawDescriptionHelpFormatter
        super().__init__(f"blocksvm {module}", None, description, epilog, formatter_class=how, allow_abbrev=False)
        self._negative_number_matcher = NEGATIVE
        self.memory = MEMORY
        self.settings: list[tuple[Setting, bool]] = []  # whether a default takes the place of one that is not given
        self.refusal: Callable[[str], str | None] = lambda flag: None  # what to say of an option that is not known
        self.add_argument("--version", action="version", version=f"blocksvm {__version__}")
        self.add("options", QUIET)

    def add(self, title: str, *settings: Setting, defaults: bool = True, required: tuple[str, ...] = ()) -> None:
        """Add a group of options.  defaults: one that is not given has its default, else None."""
        group = next((g for g in self._action_groups if g.title == title), None) or self.add_argument_group(title)
        for setting in settings:
            add_option(group, setting, required=setting.name in required)
            self.memory = setting if setting.name == "memory" else self.memory
        self.settings += [(setting, defaults) for setting in settings]

    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")

    def parse_args(self, args=None, namespace=None):
        """As argparse does it, options between the names; where there is ``--memory``, a warning if the machine has
        less.  stderr: standard error, or nowhere with ``--quiet``."""
        args = list(sys.argv[1:] if args is None else args)
        end = args.index("--") if "--" in args else len(args)  # behind it are files, whatever their names begin with
        files = [f"./{name}" if name[:1] == "-" != name else name for name in args[end + 1 :]]
        self._check_known(args[:end])
        args = args[:end] + files
        # --json [FILE]: what stands behind it is its value where it is named like one, or -
        follows = [*args[1:], ""]
        args = ["--json=-" if text == "--json" and not follows[k].endswith((".json", "-")) else text
                for k, text in enumerate(args)]  # fmt: skip
        parsed = self.parse_intermixed_args(args, namespace)
        by_user(vars(parsed))
        for setting, defaults in self.settings:
            value = getattr(parsed, setting.name)
            value = setting.default if value is None and defaults else setting.checked(value)
            setattr(parsed, setting.name, value)
        parsed.stderr = Nowhere() if parsed.quiet else sys.stderr
        show_with(partial(print, file=parsed.stderr))
        if hasattr(parsed, "memory"):
            memory = self.memory.checked(self.memory.default if parsed.memory is None else parsed.memory)
            warn_of_memory(memory, parsed.stderr)
        return parsed

    def _check_known(self, arguments: Sequence[str]) -> None:
        """InputError where an argument is an option that this command does not have, with the one that may be meant."""
        faults = {}
        for text in arguments:
            flag = text.partition("=")[0] if text.startswith("--") else text[:2]
            if text[:1] == "-" != text and not NEGATIVE.match(text) and flag not in self._option_string_actions:
                names = {name.lstrip("-").lower(): name for name in self._option_string_actions}
                close = errors.nearest(flag.lstrip("-").lower(), names)
                meant = f"did you mean {names[close]}?" if close else f"{self.prog} --help lists those that there are"
                answer = FOREIGN_OPTIONS.get(flag) or FOREIGN_OPTIONS.get("--" + flag[2:].replace("-", "_"))
                faults[flag] = self.refusal(flag) or f"{flag}: no such option here; {answer or meant}"
        if faults:
            raise errors.InputError("; ".join(faults.values()))

    def _check_value(self, action, value):
        """Of arguments alone: the values of options are checked as settings, and offered by completion."""
        if action.choices is not None and not action.option_strings and value not in action.choices:
            choices = errors.one_of(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: '{value}'; {choices}")


def add_option(group, setting: Setting, **more) -> None:
    """Add a setting as an option, None where it is not given, to a parser of argparse's or a group of one."""
    flags = [errors.option_string(setting.name), *([setting.also] if setting.also else [])]
    more |= {"dest": setting.name, "default": None, "help": setting.described().replace("%", "%%")}
    if setting.kind is bool:
        group.add_argument(*flags, action="store_true", **more)
        return
    metavar = setting.metavar or {str: "NAME", int: "N"}.get(setting.kind, "X")
    if setting.choices and len(setting.choices) <= 3 and not setting.metavar:
        metavar = "|".join(map(str, setting.choices))
    if setting.choices:
        more["choices"] = tuple(map(str, setting.choices))
    if setting.many == "append":
        more["action"] = "append"
    elif setting.many != 1:
        more |= {"nargs": setting.many, "const": "-"} if setting.many == "?" else {"nargs": setting.many}
    group.add_argument(*flags, metavar=metavar, **more)


def value_of(arguments: Sequence[str], *flags: str) -> str | None:
    """The value of an option, before the others are known that there are: '--solver pa1' or '--solver=pa1'."""
    look = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    look._negative_number_matcher = NEGATIVE
    look.add_argument(*flags, dest="value")
    try:
        value = look.parse_known_args(arguments)[0].value
    except argparse.ArgumentError:
        return None  # it has no value, which is said when all options are parsed
    by_user({flag[2:].replace("-", "_"): value for flag in flags})
    return value


class Interrupted(Exception):
    """The user stopped the run; what there was to save has been saved."""


def run(main: Callable[[list[str]], int | None], arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 done, 3 not converged, 2 wrong input, 130 interrupted, 1 anything else."""
    name = getattr(main.__globals__["__spec__"], "name", "commands")  # of the module, also where that is __main__
    prog = f"blocksvm {name.rpartition('.')[2]}".removesuffix(" commands")
    before, turns, handlers = errors.use_option_names(True), sys.getswitchinterval(), signals_interrupt()
    show = sys.unraisablehook
    # but not a signal in a destructor: catch_signals raises it again
    sys.unraisablehook = lambda fault: None if isinstance(fault.exc_value, Ended) else show(fault)
    # Products of vectors here are short, or sparse and ours: after each OpenBLAS's other threads would wait in a
    # busy loop for the next one, and take their processors from the threads that read and parse.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy reads it when it is imported, as pyarrow the next
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others keep some 30 MB of what was given back
    # That a thread may run Python code while another wants to: a thread that reads blocks asks for its turn several
    # times a chunk, and with Python's 5 ms it was held up for ten times as long as its work takes.
    sys.setswitchinterval(2e-4)
    # Python looks for garbage whenever there are 700 objects more.  Loading a command makes some 100,000, none
    # of them garbage, and looking through them 150 times takes a tenth of the time to start.
    gc.set_threshold(200_000, *USUAL[1:])
    gc.callbacks.append(look_as_usual)
    try:
        try:
            with no_user_locations(), standard_streams(), one_run() as files:
                code = _exit_code(main, prog, files.written, sys.argv[1:] if arguments is None else arguments)
        finally:
            errors.use_option_names(before)
            show_with(None)
            sys.setswitchinterval(turns)
            gc.callbacks.remove(look_as_usual)
            gc.set_threshold(*USUAL)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            sys.unraisablehook = show  # last: looking for garbage takes a while, in which signals come
    except Ended:  # behind the command's end
        code = _fail(prog, "interrupted", 130)
    sys.exit(code)


def look_as_usual(phase: str, info: Mapping) -> None:
    """From the first time on that Python looks for garbage, it does so as often as ever."""
    gc.set_threshold(*USUAL)


def _exit_code(main: Callable[[list[str]], int | None], prog: str, written: Sequence, arguments: list[str]) -> int:
    """written: the outputs that have taken their names, which the sentence on an error names."""
    try:
        code = main(arguments_without_secrets(arguments)) or 0
        sys.stdout.flush()
        return code
    except errors.InputError as error:
        return _fail(prog, str(error) + _besides(written, str(error)), 2)
    except (KeyboardInterrupt, Interrupted) as error:
        return _fail(prog, str(error) or "interrupted", 130)
    except ImportError as error:
        if _signals_seen:
            return _fail(prog, "interrupted", 130)  # while numpy was imported, which takes any error for its own
        if (error.name or "").partition(".")[0] == "blocksvm":
            raise
        text = f"a library cannot be loaded ({error}); install it again, or give the command more memory"
        return _fail(prog, text, 1)
    except OutputClosed:
        return 0  # whoever read our output has seen enough
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        return _fail(prog, "the system starts no further thread; lower --threads, or raise its limit (ulimit -u)", 1)
    except MemoryError:
        return _fail(prog, "the machine has no more memory; lower --memory", 1)
    except OSError as error:
        text, code = errors.system_sentence(error)
        return _fail(prog, text + _besides(written, text), code)


def _besides(written: Sequence, sentence: str) -> str:
    """The outputs that an error has not undone, as the end of its sentence."""
    names = [str(path) for path in dict.fromkeys(written) if path.exists() and str(path) not in sentence]
    were = "was written before that and is whole" if len(names) == 1 else "were written before that and are whole"
    return f" ({', '.join(names)} {were})" if names else ""


def _fail(prog: str, message: str, code: int) -> int:
    with contextlib.suppress(OutputClosed, OSError):
        sys.stdout.flush()
    print(f"{prog}: error: {' '.join(message.split())}" if code != 130 else f"{prog}: {message}", file=sys.stderr)
    sys.stderr.flush()
    return code


class OutputClosed(Exception):
    """The reader of standard output has closed it."""


class Nowhere(io.TextIOBase):
    """In place of a standard stream that was closed before the command began, or is not wanted: keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


class Diagnostics:
    """Standard error: what can't be written is dropped, for a lost line of progress must not end a training.  Control
    characters but line ends and tabs come out as escapes, since there may be texts of files."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name: str):
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        return self.draw(errors.shown_lines(text))

    def draw(self, text: str) -> int:
        """Write what may move the cursor of a terminal."""
        self.attempt(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        self.attempt(self.stream.flush)

    def attempt(self, act: Callable, *given: str) -> None:
        try:
            act(*given)
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        # what still lies in the stream's buffer goes there, so that Python's own flush at its end does not fail
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


class Results(Diagnostics):
    """Standard output: raises OutputClosed where its reader is gone, and names itself in any other error."""

    def failed(self, error: OSError) -> None:
        super().failed(error)
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise OSError(error.errno, error.strerror, "standard output") from error


def is_closed(stream) -> bool:
    """Whether a standard stream was closed before the command began (``>&-``)."""
    return isinstance(getattr(stream, "stream", stream), Nowhere)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """While a command runs, ``sys.stdout`` and ``sys.stderr`` exist and fail as said above, and write an escape for a
    character that their encoding lacks."""
    before = sys.stdout, sys.stderr
    # numbers 0 to 2 are taken before a file of ours gets one, into which a library's messages would be written
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = Results(Nowhere() if sys.stdout is None else sys.stdout)
    sys.stderr = Diagnostics(Nowhere() if sys.stderr is None else sys.stderr)
    wrappers = [(stream, stream.errors) for stream in before if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in wrappers:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in wrappers:
            if not stream.closed:
                stream.reconfigure(errors=errors)
        sys.stdout, sys.stderr = before


class Ended(KeyboardInterrupt):
    """By a signal.  Python notes a plain KeyboardInterrupt that passes through code made from text, such as that of a
    dataclass, and in the end kills itself by SIGINT, whatever the exit status."""


ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # by a user, a container, a closed terminal
_signals_seen: list[int] = []  # by this command


def catch_signals() -> Callable[[], bool]:
    """From now on Ctrl-C, SIGTERM and SIGHUP only set a flag, which the returned function tells; a second one ends at
    once.  KeyboardInterrupt where one came before and was lost in a library's code."""
    if _signals_seen:
        raise Ended
    signals_interrupt(at=2)
    return lambda: bool(_signals_seen)


def signals_interrupt(at: int = 1) -> dict:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, the first or a later one of them, so that what is half
    written is removed, also in a container, for whose first process the system handles none.  Those that are ignored
    stay so, as nohup has SIGHUP be.  Returns the handlers of before; only a program's main thread can set any."""
    _signals_seen.clear()

    def handler(number, frame) -> None:
        _signals_seen.append(number)
        if len(_signals_seen) >= at:
            raise Ended

    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


def warn_of_memory(memory: int, stderr) -> None:
    """Say where the machine, or the memory cgroup of a container, has less than a command takes."""
    limit, what = memory_limit()
    if memory + BESIDES <= limit:
        return
    fitting = int(limit - BESIDES) // 10**6
    advice = f"give --memory {fitting}MB or less" if fitting >= 5 else "give it more"
    print(
        f"warning: --memory {megabytes(memory)}, and some {megabytes(BESIDES)} for the program besides, are more than "
        f"{what} {megabytes(limit)}: the system may end this command without a word; {advice}",
        file=stderr,
    )
