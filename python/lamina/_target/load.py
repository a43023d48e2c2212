# SPDX-License-Identifier: Apache-2.0
"""From ``pkg.mod:attr`` or ``file.py:attr`` to the named object, and to the model that it builds."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._base.check import describe_object
from .._base.errors import UsageError
from .._base.signature import takes
from .._base.terminal import progress
from .limit import TooLargeError, available, large_on_meta, limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

NAMES_SHOWN = 4  # the most files that an error names
MOST_REAL = 1073741824  # the most bytes of a model that is built with real tensors for a dry run


class _ShownError(Exception):
    """An exception of user code, as one sentence."""


class _TooLargeShownError(_ShownError):
    """The model is larger than the memory, as one sentence without advice."""


def line_of(error: BaseException) -> str:
    """The class and the first line of an exception."""
    if isinstance(error, SystemExit):
        return f"its code called sys.exit({'' if error.code is None else repr(error.code)})"
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _place_of(error: BaseException, path: str | None) -> str:
    """The last line of the user's file that led to an exception, else the line that raised it."""
    from traceback import extract_tb

    torch = str(Path(sys.modules["torch"].__file__ or "").parent)
    mine, ours = path and str(Path(path).absolute()), (str(Path(__file__).parents[1]), "<")
    frames = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    frames = [f for f in frames if not f.filename.startswith(torch)] or frames
    frames = [f for f in frames if f.filename == mine] or frames
    return f", in line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""


def _importing(error: BaseException, outer: int) -> str:
    """``"while importing x: "``, if a module's own code failed; ``outer``: the number of known imports around
    it."""
    from traceback import walk_tb

    frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    return f"while importing {frames[outer].f_globals.get('__name__')}: " if len(frames) > outer else ""


def _shown(error: BaseException, before: str, path: str | None, outer: int = 0) -> _ShownError:
    """The exception of user code, its place, and the import that it happened in."""
    text = f"{before}{_importing(error, outer)}{line_of(error)}{_place_of(error, path)}"
    if "torchvision::" in str(error):  # torchvision's own operators are missing
        torch = sys.modules["torch"].__version__
        text += f"; torchvision does not fit torch {torch}: install the torchvision that was made for it"
    return _ShownError(text)


def near(name: str, names: Iterable[str]) -> str:
    """``"; did you mean Linear?"``, if one of ``names`` is similar to ``name``."""
    from difflib import get_close_matches

    found = get_close_matches(name, [n for n in names if not n.startswith("_")], n=3)
    return f"; did you mean {' or '.join(found)}?" if found else ""


# -- finding -------------------------------------------------------------------------------------------------


def split(target: str, what: str = "model") -> tuple[str, str]:
    """The file or module of a target, and the name in it."""
    where, _, path = target.rpartition(":")
    if where and path and (where.endswith(".py") or not S_ISREG(_mode(where))):
        return where, path
    if where and path:
        raise UsageError(
            f"{where} is a file without Python code; write path/to/file.py:name, with code that builds the "
            f"{what} and loads the file into it"
        )
    if S_ISDIR(_mode(target)):
        raise UsageError(
            f"{target} is a folder and names no {what}; write {Path(target, 'FILE.py')}:NAME"
            f"{_files_in(target)}"
        )
    if S_ISREG(_mode(target)) and (text := _other_file(target)):
        raise UsageError(text)
    why = f"is a file and names no {what}" if S_ISREG(_mode(target)) else f"does not name a {what}"
    file = target.removesuffix(":")
    if file.endswith(".py") and S_ISREG(_mode(file)):
        raise UsageError(f"{target!r} {why}; write {file}:NAME{_defined_in(file)}")
    text = f"{target!r} {why}; write package.module:name or path/to/file.py:name"
    if what == "model" and target and why.startswith("is") and not target.endswith(".py"):
        text += ", with code that builds the model and loads the file into it"
    raise UsageError(text)


def _files_in(folder: str) -> str:
    """``"; it has net.py and train.py"``: the Python files of a folder."""
    files = sorted(file.name for file in Path(folder).glob("*.py"))[:NAMES_SHOWN]
    return f"; it has {', '.join(files)}" if files else "; it has no Python file"


def _defined_in(file: str) -> str:
    """``"; it has Net and make_net"``: the classes and functions of a file, which is read and not run."""
    import ast

    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return _listed([node.name for node in tree.body if isinstance(node, kinds)])


def _listed(names: Iterable[str]) -> str:
    """``"; it has Net, make_net, ..."``, of names that are not private."""
    public = [name for name in names if not name.startswith("_")]
    more = ", ..." if len(public) > NAMES_SHOWN else ""
    return (
        f"; it has {', '.join(public[:NAMES_SHOWN])}{more}" if public else "; it has no class and no function"
    )


def _other_file(path: str) -> str | None:
    """The sentence for a file that lamina itself wrote: what shows it. None for other files."""
    try:
        with Path(path).open("rb") as file:
            begins = file.read(64)
    except OSError:
        return None
    if begins.startswith(b"SQLite format 3\0"):
        return f"{path} is a recording and no model; `lamina show {path}` and `lamina report {path}` show it"
    if path.endswith(".json") and b'"schema": "lamina.report/' not in begins:
        return (
            f"{path} is neither a model nor a report that lamina saved; `lamina show TARGET --json -o FILE` "
            "saves one, and a model is FILE.py:NAME"
        )
    if b'"schema": "lamina.report/' not in begins:
        return None
    return (
        f"{path} is a saved report and no model; `lamina report {path} -o report.html` shows it, and "
        f"`lamina diff {path} TARGET` compares a model, a recording or another report with it"
    )


def _mode(path: str) -> int:
    """The kind of file that a path names; 0 if there is none."""
    try:
        return Path(path).stat().st_mode
    except (OSError, ValueError):
        return 0


def load(where: str, path: str, files: dict[Any, Any]) -> Any:
    """The object ``path`` in a file or a module. ``files`` were run already and are not run again."""
    value: Any = _file(where, files) if where.endswith(".py") or os.sep in where else _package(where)
    for name in path.split("."):
        owner, value = value, getattr(value, name, None)
        if value is None:
            raise UsageError(f"{where} has no {path!r}{_instead(owner, name, where)}")
    return value


def _instead(owner: Any, name: str, where: str) -> str:
    """What there is in place of a name that an object lacks."""
    if callable(getattr(owner, "create_model", None)):
        known = _known_models(owner)
        which = name if name in known or not known else "NAME"
        return (
            f"; its models are built by name: {where}:create_model -k model_name={which}{near(name, known)}"
        )
    if is_folder := getattr(owner, "__file__", "") is None and list(getattr(owner, "__path__", ())):
        folder = os.path.relpath(is_folder[0])
        return f"; it is a folder: write {Path(folder, 'FILE.py')}:{name}{_files_in(folder)}"
    if hint := near(name, dir(owner)):
        return hint
    own = getattr(owner, "__name__", None)
    return _listed(n for n, v in vars(owner).items() if callable(v) and getattr(v, "__module__", None) == own)


def _known_models(owner: Any) -> list[str]:
    """The names of a package that lists its models, as timm and torchvision.models do."""
    try:
        return [str(name) for name in owner.list_models()]
    except Exception:
        return []


def _file(path: str, files: dict[Any, Any]) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    file = Path(path)
    key = ("", str(file.absolute()))
    if key in files:
        return files[key]
    if S_ISDIR(_mode(path)):
        raise UsageError(f"{path} is a folder; name a file in it")
    if not _mode(path):
        names = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise UsageError(f"there is no file {path}{near(file.name, names)}")
    name = file.stem
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules.setdefault(name, module)  # dataclasses and pickle find their module there
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        if not isinstance(error, (Exception, SystemExit)):
            raise
        raise _shown(error, f"{path} can't be run: ", spec.origin, 1) from error
    files[key] = module
    return module


def _package(name: str) -> ModuleType:
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    done = ""
    for part in name.split("."):
        whole = f"{done}.{part}" if done else part
        try:
            import_module(whole)
        except ModuleNotFoundError as error:
            if error.name != whole:
                raise UsageError(f"while importing {name}: {error}") from error
            inside = f" in {done}" if done else ""
            raise UsageError(f"there is no module {part!r}{inside}{near(part, _modules(done))}") from None
        except (Exception, SystemExit) as error:
            raise _shown(error, f"while importing {whole}: ", None, 99) from error
        done = whole
    return sys.modules[done]


def _modules(package: str) -> list[str]:
    import pkgutil

    path = getattr(sys.modules[package], "__path__", ()) if package else None
    return [module.name for module in pkgutil.iter_modules(path)]


# -- building ------------------------------------------------------------------------------------------------


def build(target: str, texts: Sequence[str], files: dict[Any, Any], *, dry: bool) -> Any:
    """The model that ``target`` names, built with ``texts``, as ``"weights=None"``. It never fills the
    memory: for a dry run a large model is built on the meta device.

    Raises:
        UsageError: the target or an argument is malformed.
        _ShownError: the user's code raised, or the model is larger than the memory.
    """
    where, path = split(target)
    arguments = dict(_keyword(text) for text in texts)
    with progress("building the model"):
        value = _within(lambda: load(where, path, files), target, dry=dry, again=False)
        return _within(lambda: _module(value, where, target, arguments), target, dry=dry, again=True)


def _within(make: Callable[[], Any], target: str, *, dry: bool, again: bool) -> Any:
    """The result of ``make``, if there is memory for it. If it takes more than some memory, it is made on the
    meta device, where tensors have sizes and no memory: in a dry run it stays there; otherwise only its size
    is measured, if it can be made ``again`` afterwards, unlike an import."""
    torch = sys.modules["torch"]
    here, state, needed = available(), torch.get_rng_state(), None
    some = MOST_REAL if here is None else min(here, MOST_REAL)
    made, error = _tried(make, nullcontext(), some if dry or again else here, dry=dry)
    if error is None:
        return made
    if not isinstance(error, TooLargeError):
        raise error
    if dry:
        return _on_meta(make, target, some, here)
    if again:
        made, error = _tried(make, large_on_meta(), some)
        needed = _nbytes(made) if error is None else None
        if needed is None or here is None or needed <= here:
            torch.set_rng_state(state)
            made, error = _tried(make, nullcontext(), here)
            if error is None:
                return made
            if not isinstance(error, TooLargeError):
                raise error
    there = _lamina.text_bytes(here or 0)
    if needed is None or needed <= (here or 0):
        raise _TooLargeShownError(f"{target} needs more memory than there is ({there})")
    raise _TooLargeShownError(
        f"{target} needs {_lamina.text_bytes(needed)} for its parameters alone, and there are {there}"
    )


def _nbytes(model: Any) -> int:
    """Bytes of a model's parameters and buffers."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors)  # not a count: whether there is memory


def _on_meta(make: Callable[[], Any], target: str, some: int, here: int | None) -> Any:
    """The result of ``make`` with tensors on the meta device, and at most ``some`` bytes of real ones. A
    model whose code names another device for its tensors gets real ones, if there is memory for them."""
    made, first = _tried(make, large_on_meta(), some)
    if first is None:
        return made
    made, error = _tried(make, sys.modules["torch"].device("meta"), some)
    if isinstance(error, TooLargeError):
        made, error = _tried(make, nullcontext(), here)
    if error is None:
        return made
    large = f"{target}: its code makes large tensors on a device that it names"
    raise _ShownError(
        f"{large if isinstance(first, TooLargeError) else first}; a model of over "
        f"{_lamina.text_bytes(MOST_REAL)} is built on the meta device: write "
        '`with torch.device("meta"):` around its large layers alone'
    ) from error


def _tried(
    make: Callable[[], Any], context: Any, most: int | None, *, dry: bool = False
) -> tuple[Any, BaseException | None]:
    try:
        with limited(most, dry=dry), context:
            return make(), None
    except TooLargeError:
        error = TooLargeError()  # a new error, since the first one holds the tensors
    except Exception as raised:
        return None, raised
    gc.collect()
    return None, error


def _module(value: Any, where: str, target: str, arguments: dict[str, Any]) -> Any:
    """The module itself, or the module that a class or function builds."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.nn.Module):
        if arguments:
            raise UsageError(f"{target} is a model already and takes no build arguments")
        return value
    if not callable(value):
        raise UsageError(
            f"{target} is {describe_object(value)}; name a torch.nn.Module, or a class or function that "
            "builds one"
        )
    built = call(value, arguments, where, target, "give what it takes with -k NAME=VALUE")
    if not isinstance(built, torch.nn.Module):
        raise UsageError(f"{target} built {describe_object(built)} and not a torch.nn.Module")
    return built


def call(function: Any, arguments: dict[str, Any], where: str, target: str, otherwise: str) -> Any:
    """The result of a user's function; its exceptions are reported with their line."""
    try:
        return function(**arguments)
    except (Exception, SystemExit) as error:
        trace = error.__traceback__
        if isinstance(error, TypeError) and (trace is None or trace.tb_next is None):
            raise UsageError(
                f"{target}: {line_of(error)}; {_takes(function, arguments, otherwise)}"
            ) from None
        file = where if where.endswith(".py") else getattr(sys.modules.get(where), "__file__", None)
        text = _shown(error, f"{target}: ", file)
        raise _ShownError(f"{text}{_given(arguments, where)}") from error


def _takes(function: Callable[..., Any], arguments: dict[str, Any], otherwise: str) -> str:
    """What a function takes in place of what it was given."""
    wanted = takes(function)
    if wanted is None:
        return otherwise
    names = list(wanted.parameters)
    unknown = next((name for name in arguments if name not in names), None)
    hint = near(unknown, names) if unknown else ""
    shown = ", ".join(map(str, wanted.parameters.values()))
    other = "; what is no number, text, list or dict is built by a function of yours that takes nothing"
    return f"it takes ({shown}){hint}; {otherwise}{'' if hint else other}"


def _given(arguments: dict[str, Any], where: str) -> str:
    """What was given to a function that raised, and the models of near names in a package that lists its
    models."""
    if not arguments:
        return ""
    shown = f"; it was built with {', '.join(f'-k {name}={value!r}' for name, value in arguments.items())}"
    known = _known_models(sys.modules.get(where))
    texts = [value for value in arguments.values() if isinstance(value, str) and value not in known]
    return shown + "".join(near(text, known) for text in texts[:1])


def _keyword(text: str) -> tuple[str, Any]:
    """``"weights=None"`` as a name and a value; a value that is no Python literal is a string."""
    from ast import literal_eval

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"{text!r} is no build argument; write -k name=value")
    try:
        return name, literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
